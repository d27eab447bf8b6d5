//! Draws the state: devices, the history of the chosen one, and what is asked.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Clear, Paragraph, RenderDirection, Sparkline};

use iosched_machine::watch::{DeviceSample, Rates};
use iosched_report::words::span;

use super::lines::{self, short};
use super::state::{History, Mode, Point, State};

/// Columns that the labels of the history take.
const LABEL: u16 = 16;

const KEYS: &str = " up/down device  s scheduler  ? help  q quit";

const HELP: &[&str] = &[
    "up, down   choose a device",
    "s          switch its scheduler (asks first)",
    "?          this help",
    "q, Esc     quit",
    "",
    "r_await, w_await: ms from queueing to completion",
    "aqu-sz: mean requests queued or in service",
    "%util: share of time with something to do",
    "",
    "The history marks where the scheduler changed,",
    "whoever changed it.",
];

/// Draws everything.
pub(super) fn draw(state: &State, frame: &mut Frame) {
    let devices = u16::try_from(state.devices.len()).unwrap_or(u16::MAX);
    let [title, table, history, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(devices.saturating_add(1)),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(title_line(state, title.width), title);
    draw_table(state, frame, table);
    if let Some(device) = state.device() {
        draw_history(device, frame, history);
    }
    let footer = state.message.as_deref().unwrap_or(KEYS);
    frame.render_widget(Line::from(footer.to_owned()).dim(), keys);
    match &state.mode {
        Mode::Watching => {}
        Mode::Help => draw_box(frame, " iosched watch ", &Text::from(HELP.join("\n"))),
        Mode::Choosing { at } => draw_choice(state, *at, frame),
        Mode::Confirming { scheduler } => draw_question(state, scheduler, frame),
    }
}

fn title_line(state: &State, width: u16) -> Line<'static> {
    let every = format!("every {} s", state.interval.as_secs_f64());
    let pressure = state.pressure.map_or_else(String::new, |(some, full)| {
        format!(
            "  waiting for I/O: some {:.0} %, all {:.0} %",
            some * 100.0,
            full * 100.0
        )
    });
    let fits = |text: &String| text.chars().count() <= usize::from(width);
    let text = [
        format!("iosched watch: {}, {every}{pressure}", state.title),
        format!("iosched watch{pressure}"),
        pressure.trim_start().to_owned(),
    ]
    .into_iter()
    .find(fits)
    .unwrap_or_default();
    Line::from(text).bold()
}

fn draw_table(state: &State, frame: &mut Frame, area: Rect) {
    let is_wide = usize::from(area.width) >= lines::HEADING.len();
    let (heading, line): (_, fn(&DeviceSample) -> String) = if is_wide {
        (lines::HEADING, lines::line)
    } else {
        (lines::NARROW_HEADING, lines::narrow_line)
    };
    let mut rows = vec![Line::from(heading).dim()];
    // The chosen device stays in sight where there are more than rows.
    let room = usize::from(area.height.saturating_sub(1));
    let first = (state.chosen + 1).saturating_sub(room);
    for (index, history) in state.devices.iter().enumerate().skip(first) {
        let mut row = Line::from(line(&history.last));
        if history.last.rates.is_none() {
            row = row.dim();
        }
        if index == state.chosen {
            row = row.add_modifier(Modifier::REVERSED);
        }
        rows.push(row);
    }
    frame.render_widget(Text::from(rows), area);
}

/// A number of a look, if there is one.
type Value = fn(&Rates) -> Option<f64>;

/// What is drawn.
const SERIES: [(&str, Value); 3] = [
    ("MB/s", |rates| Some(rates.bytes_per_s() / 1e6)),
    ("IOPS", |rates| Some(rates.ios_per_s())),
    ("await, ms", |rates| rates.await_ns().map(|ns| ns / 1e6)),
];

fn draw_history(device: &History, frame: &mut Frame, area: Rect) {
    let name = format!(" {} ", device.last.device);
    let block = Block::bordered().title(name);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    // Where there is hardly room for the series themselves the axis of time goes first.
    let has_axis = usize::from(inside.height) > SERIES.len() + 1;
    let [marks, rows, axis] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(u16::from(has_axis)),
    ])
    .areas(inside);
    draw_marks(device, frame, beside_label(marks));
    let areas = Layout::vertical(SERIES.iter().map(|_| Constraint::Fill(1))).split(rows);
    for ((name, value), area) in SERIES.iter().zip(areas.iter()) {
        draw_series(device, name, value, frame, *area);
    }
    if has_axis {
        draw_time(device, frame, beside_label(axis));
    }
}

/// How long ago the left end of the history is.
fn draw_time(device: &History, frame: &mut Frame, area: Rect) {
    let width = usize::from(area.width);
    let shown: Vec<f64> = (device.points.iter().rev().take(width))
        .map(|point| point.elapsed_s)
        .collect();
    let ago = Duration::from_secs_f64(shown.iter().sum::<f64>().round());
    let begins = format!("|{} ago", span(ago));
    let blank = width - shown.len();
    let room = shown.len().saturating_sub(begins.len());
    let text = match room {
        room if room >= 4 => format!("{:blank$}{begins}{:>room$}", "", "now|"),
        _ => format!("{:>width$}", "now|"),
    };
    frame.render_widget(Line::from(text).dim(), area);
}

/// The part of a row where time runs.
fn beside_label(area: Rect) -> Rect {
    let [_, beside] =
        Layout::horizontal([Constraint::Length(LABEL), Constraint::Min(0)]).areas(area);
    beside
}

/// One number over time, the newest at the right, with its last and its largest value.
fn draw_series(
    device: &History,
    name: &str,
    value: impl Fn(&Rates) -> Option<f64>,
    frame: &mut Frame,
    area: Rect,
) {
    let beside = beside_label(area);
    let newest_first = device.points.iter().rev().take(usize::from(beside.width));
    let values: Vec<Option<f64>> = newest_first
        .map(|point| point.rates.as_ref().and_then(&value))
        .collect();
    let largest = values.iter().flatten().copied().fold(0.0, f64::max);
    let now = values.first().copied().flatten();
    let mut label = vec![
        Line::from(format!(
            "{name:<9}{:>6}",
            now.map_or_else(|| "-".into(), short)
        )),
        Line::from(format!("{:<9}{:>6}", "  largest", short(largest))).dim(),
    ];
    // Bars begin at zero, and end at the largest value.
    if let Some(last) = usize::from(area.height)
        .checked_sub(1)
        .filter(|&last| last > 1)
    {
        label.resize(last, Line::default());
        label.push(Line::from(format!("{:>15}", "0")).dim());
    }
    frame.render_widget(Text::from(label), area);
    let bars = values
        .iter()
        .map(|value| value.map(|value| scaled(value, largest)));
    let spark = Sparkline::default()
        .data(bars.collect::<Vec<Option<u64>>>())
        .max(SCALE)
        .direction(RenderDirection::RightToLeft)
        .absent_value_symbol(" ");
    frame.render_widget(spark.style(Style::default().fg(Color::Cyan)), beside);
}

/// Height of a full bar, in steps finer than any terminal shows.
const SCALE: u64 = 1000;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is between 0 and SCALE"
)]
fn scaled(value: f64, largest: f64) -> u64 {
    if largest > 0.0 {
        (value / largest * SCALE as f64) as u64
    } else {
        0
    }
}

/// Where the scheduler changed: its new name, ending above the moment.
fn draw_marks(device: &History, frame: &mut Frame, area: Rect) {
    let width = usize::from(area.width);
    let mut row = vec![' '; width];
    let oldest_first = device.points.iter().rev().take(width).enumerate().rev();
    let mut free_from = 0;
    for (age, Point { became, .. }) in oldest_first {
        let Some(name) = became else { continue };
        let mark = width - 1 - age;
        row[mark] = '\u{25bc}';
        // Its name, where that does not cover the mark before.
        let name: Vec<char> = name.chars().collect();
        if let Some(start) = mark
            .checked_sub(name.len())
            .filter(|&start| start >= free_from)
        {
            row[start..mark].copy_from_slice(&name);
        }
        free_from = mark + 1;
    }
    let row: String = row.into_iter().collect();
    frame.render_widget(Line::from(row).fg(Color::Yellow), area);
}

fn draw_choice(state: &State, at: usize, frame: &mut Frame) {
    let Some(device) = state.device().map(|history| &history.last) else {
        return;
    };
    let mut rows = Vec::new();
    for (index, name) in device.offered.iter().enumerate() {
        let active = if Some(name) == device.scheduler.as_ref() {
            " (active)"
        } else {
            ""
        };
        let mut row = Line::from(format!("{name}{active}"));
        if index == at {
            row = row.add_modifier(Modifier::REVERSED);
        }
        rows.push(row);
    }
    rows.push(Line::from(""));
    rows.push(Line::from("Enter: choose   Esc: leave it").dim());
    draw_box(
        frame,
        &format!(" scheduler of {} ", device.device),
        &Text::from(rows),
    );
}

fn draw_question(state: &State, scheduler: &str, frame: &mut Frame) {
    let Some(device) = state.device().map(|history| &history.last) else {
        return;
    };
    let from = device.scheduler.as_deref().unwrap_or("none");
    let question = format!(
        "Switch {} from {from} to {scheduler} now?\n\ny: yes   any other key: no",
        device.device
    );
    draw_box(frame, " switch ", &Text::from(question));
}

/// A box in the middle, over what is there.
fn draw_box(frame: &mut Frame, title: &str, text: &Text) {
    let width = text.width().max(title.len()) + 4;
    let height = text.height() + 2;
    let fit = |wanted: usize, have: u16| u16::try_from(wanted).unwrap_or(u16::MAX).min(have);
    let screen = frame.area();
    let (width, height) = (fit(width, screen.width), fit(height, screen.height));
    let area = Rect {
        x: (screen.width - width) / 2,
        y: (screen.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, area);
    let block = Block::bordered()
        .title(title.to_owned())
        .padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Paragraph::new(text.clone()).block(block), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::super::state::tests::sample;
    use super::*;

    fn state() -> State {
        let mut state = State::new("box, Linux 6.12".into(), Duration::from_secs(1));
        for look in 0..40 {
            let scheduler = if look < 25 { "none" } else { "bfq" };
            state.add(sample("sda", scheduler, f64::from(look % 10) * 10.0));
        }
        state
    }

    fn drawn(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(state, frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_terminal_of_80_by_24_shows_all() {
        insta::assert_snapshot!(drawn(&state(), 80, 24));
    }

    #[test]
    fn each_switch_has_its_mark_and_a_name_covers_none() {
        let mut state = State::new("box, Linux 6.12".into(), Duration::from_secs(1));
        let switches = ["none"; 9].into_iter().chain(["bfq"; 2]).chain(["none"; 6]);
        for scheduler in switches.chain(["kyber"; 1]) {
            state.add(sample("sda", scheduler, 10.0));
        }
        let screen = drawn(&state, 80, 24);
        let marks = screen.lines().find(|line| line.contains('\u{25bc}'));
        let marks = marks.expect(&screen).trim_end_matches(['"', '\u{2502}']);
        assert!(
            marks.ends_with("bfq\u{25bc} \u{25bc}kyber\u{25bc}"),
            "{marks}"
        );
    }

    #[test]
    fn a_narrow_terminal_leaves_columns_out() {
        insta::assert_snapshot!(drawn(&state(), 50, 12));
    }

    #[test]
    fn the_choice_and_the_question_stand_in_the_middle() {
        let mut state = state();
        for code in [KeyCode::Char('s'), KeyCode::Up] {
            state.press(KeyEvent::new(code, KeyModifiers::NONE));
        }
        insta::assert_snapshot!(drawn(&state, 60, 14));
        state.press(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
        assert!(drawn(&state, 60, 14).contains("Switch sda from bfq to mq-deadline now?"));
    }

    #[test]
    fn no_size_of_terminal_is_too_small() {
        let mut state = state();
        for mode in [Mode::Watching, Mode::Help, Mode::Choosing { at: 2 }] {
            state.mode = mode;
            for side in [1, 2, 3, 5, 8, 13, 17, 21, 34] {
                for other in [1, 2, 3, 5, 8, 16, 40, 100] {
                    drawn(&state, side, other);
                    drawn(&state, other, side);
                }
            }
        }
    }
}
