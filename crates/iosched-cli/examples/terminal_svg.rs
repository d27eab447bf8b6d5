//! What a terminal shows, as a picture: text with colours from standard input, SVG to standard output.
//! `lab/pictures` makes the README's with it.

use std::io::{self, Read, Write};

fn main() -> io::Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    // A terminal ends its lines with both.
    let text = text.replace("\r\n", "\n");
    let svg = anstyle_svg::Term::new().render_svg(&text);
    io::stdout().write_all(svg.as_bytes())
}
