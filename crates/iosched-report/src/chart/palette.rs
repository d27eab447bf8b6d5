//! Colours that the colour-blind can tell apart, and markers for those who see none.
//!
//! M. Okabe and K. Ito, *Color Universal Design* (2008). Their yellow and black are left out: one is
//! lost on white paper, the other on a dark screen. The page has lighter ones for its dark theme, in
//! its style sheet.

/// Colours of the slots, in order.
pub(super) const COLOURS: [&str; 6] = [
    "#0072b2", // blue
    "#d55e00", // vermillion
    "#009e73", // bluish green
    "#cc79a7", // reddish purple
    "#e69f00", // orange
    "#56b4e9", // sky blue
];

/// Text.
pub(super) const TEXT: &str = "#1b1f24";
/// Text of less weight, axes.
pub(super) const MUTED: &str = "#57606a";
/// Lines of the grid.
pub(super) const GRID: &str = "#d8dee4";
/// Bands behind the series.
pub(super) const BAND: &str = "#8c959f";
pub(super) const PAPER: &str = "#ffffff";
/// What is wrong.
pub(super) const ALARM: &str = "#b3261e";

/// The forms of markers: after the colours have come round, the marker still differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    Circle,
    Square,
    Diamond,
    Triangle,
    Cross,
    UpsideDown,
    Plus,
}

const MARKERS: [Marker; 7] = [
    Marker::Circle,
    Marker::Square,
    Marker::Diamond,
    Marker::Triangle,
    Marker::Cross,
    Marker::UpsideDown,
    Marker::Plus,
];

impl Marker {
    pub(super) fn of(slot: usize) -> Marker {
        MARKERS[slot % MARKERS.len()]
    }
}

/// The colour of a slot, as an index into [`COLOURS`].
pub(super) fn colour(slot: usize) -> usize {
    slot % COLOURS.len()
}
