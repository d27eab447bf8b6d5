//! Draws what requests took: await split into queue and service, and a heat map over time, the newest
//! at the right, one row for each class of latencies.

use iosched_machine::watch::latency::{CLASSES, LatencySample, Parts, class_begin_us};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::Block;

use super::lines::milliseconds;
use super::state::Heat;

/// Columns that the names of the classes take.
const LABEL: usize = 12;

/// From few requests to the most of any cell.
const SHADES: [char; 4] = ['\u{2591}', '\u{2592}', '\u{2593}', '\u{2588}'];

pub(super) fn draw(heat: &Heat, frame: &mut Frame, area: Rect) {
    let block = Block::bordered().title(format!(" {}: latency of requests ", heat.device));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [split, map] = Layout::vertical([Constraint::Length(2), Constraint::Fill(1)]).areas(inside);
    let last = heat.looks.back().cloned().unwrap_or_default();
    let mut lines: Vec<Line> = split_lines(&last).into_iter().map(Line::from).collect();
    if last.lost_events > 0 {
        lines[1].push_span(format!("   {} events lost", last.lost_events));
    }
    frame.render_widget(Text::from(lines), split);
    let rows = rows(heat, usize::from(map.width), usize::from(map.height));
    let rows: Vec<Line> = rows
        .into_iter()
        .map(|row| Line::from(row).fg(Color::Cyan))
        .collect();
    frame.render_widget(Text::from(rows), map);
}

/// What reads and writes took, a line each.
pub(super) fn split_lines(sample: &LatencySample) -> Vec<String> {
    let line = |name: &str, parts: &Parts| {
        let whole = parts.queue_ns.zip(parts.service_ns);
        let whole = whole.map(|(queue, service)| queue + service);
        format!(
            "{name:<6} {:>7}: {:>6} ms = queue {:>6} + service {:>6}",
            parts.requests,
            milliseconds(whole),
            milliseconds(parts.queue_ns),
            milliseconds(parts.service_ns)
        )
    };
    vec![line("reads", &sample.read), line("writes", &sample.write)]
}

/// The map: slow requests above, fast ones below; classes that nothing fell into are left out at both
/// ends, and neighbours share a row where there are more than rows.
fn rows(heat: &Heat, width: usize, height: usize) -> Vec<String> {
    let room = width.saturating_sub(LABEL);
    let first = heat.looks.len().saturating_sub(room);
    let looks: Vec<&LatencySample> = heat.looks.iter().skip(first).collect();
    let is_seen = |class: &usize| looks.iter().any(|look| look.classes[*class] > 0);
    let (Some(low), Some(high)) = ((0..CLASSES).find(is_seen), (0..CLASSES).rfind(is_seen)) else {
        return vec!["no request was completed yet".to_owned()];
    };
    let each = (high - low + 1).div_ceil(height.max(1));
    let starts: Vec<usize> = (low..=high).step_by(each).collect();
    let count = |look: &LatencySample, start: usize| -> u64 {
        look.classes[start..(start + each).min(CLASSES)]
            .iter()
            .sum()
    };
    let counts = starts
        .iter()
        .flat_map(|&start| looks.iter().map(move |look| count(look, start)));
    let most = counts.max().unwrap_or(0);
    let cell = |look: &&LatencySample, start: usize| shade(count(look, start), most);
    let row = |&start: &usize| {
        let cells: String = looks.iter().map(|look| cell(look, start)).collect();
        format!("{:>width$} {cells:>room$}", from(start), width = LABEL - 1)
    };
    starts.iter().rev().map(row).collect()
}

/// By the logarithm: a few slow requests among thousands of fast ones are seen.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and the number of shades"
)]
fn shade(count: u64, most: u64) -> char {
    if count == 0 {
        return ' ';
    }
    let share = (count as f64).ln_1p() / (most as f64).ln_1p();
    SHADES[((share * SHADES.len() as f64).ceil() as usize).clamp(1, SHADES.len()) - 1]
}

/// Where a class begins: `from 16 ms`.
fn from(class: usize) -> String {
    match class_begin_us(class) {
        us if us < 1000 => format!("{us} \u{b5}s"),
        us if us < 1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        us => format!("{:.1} s", us as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use iosched_machine::watch::latency::class;

    use super::*;

    #[test]
    fn few_slow_requests_are_seen_among_many_fast_ones() {
        let look = |fast: u64, slow: u64| {
            let mut sample = LatencySample::default();
            sample.classes[class(200_000)] = fast;
            sample.classes[class(3_000_000)] = slow;
            sample
        };
        let heat = Heat {
            device: "sda".into(),
            looks: [look(10_000, 0), look(8000, 1), look(0, 0)].into(),
        };
        let map = rows(&heat, 20, 12);
        assert_eq!(map.len(), 5, "{map:?}");
        assert_eq!(map[0], "     2.0 ms       \u{2591} ");
        assert_eq!(map[4], "     128 \u{b5}s      \u{2588}\u{2588} ");
        assert_eq!(rows(&heat, 20, 2).len(), 2);
    }
}
