//! The charts of a recording: where the arm went, how much waited.

use super::{Axis, Chart, Form, Point, Scale, Series, thin};
use crate::traffic::{Access, Level, RequestKind, Traffic};

/// Columns of the grid that a seek picture of many requests is thinned to.
const COLUMNS: usize = 160;
const ROWS: usize = 40;

/// Every chart that the recording has data for.
pub fn charts(traffic: &Traffic) -> Vec<Chart> {
    let mut charts = vec![seeks(traffic)];
    if traffic.has_issues() {
        charts.push(waiting(traffic));
        charts.push(at_disk(traffic));
    }
    charts.retain(Chart::has_points);
    charts
}

/// Where each request began, against time.
fn seeks(traffic: &Traffic) -> Chart {
    let series: Vec<Series> = traffic
        .accesses()
        .iter()
        .map(|(&kind, accesses)| Series {
            name: kind.words().to_owned(),
            slot: kind as usize,
            form: Form::Specks,
            points: picture(kind, accesses),
        })
        .collect();
    let shown: usize = series.iter().map(|series| series.points.len()).sum();
    let all = traffic.requests();
    let thinned = if shown < all {
        format!(
            " Shown are {shown} of {all} requests: of each of {COLUMNS} stretches of time and {ROWS} of \
             the disk one, and of each stretch of time the lowest and the highest."
        )
    } else {
        String::new()
    };
    let what = if traffic.has_issues() {
        "Where requests begin, as the disk got them."
    } else {
        "Where requests begin, as they were submitted."
    };
    let ends = traffic.accesses().iter().map(|(kind, accesses)| {
        let sectors = || accesses.iter().map(|access| gigabytes(access.sector));
        format!(
            "{} {} between {:.3} GB and {:.3} GB",
            accesses.len(),
            kind.words(),
            sectors().fold(f64::MAX, f64::min),
            sectors().fold(f64::MIN, f64::max)
        )
    });
    Chart {
        id: "seeks".into(),
        title: "Seek picture".into(),
        caption: format!(
            "{what} A smooth rise is a sequential stream; a cloud is random.{thinned}"
        ),
        alternative: ends.collect::<Vec<_>>().join("; "),
        x: time_axis(),
        y: Axis::new("position on the disk, GB", Scale::Linear),
        series,
        marks: Vec::new(),
        trials: Vec::new(),
    }
}

fn time_axis() -> Axis {
    Axis::new("time, s", Scale::Linear)
}

fn gigabytes(sector: u64) -> f64 {
    sector as f64 * 512.0 / 1e9
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// All of the accesses; of too many, those that a picture can tell apart.
fn picture(kind: RequestKind, accesses: &[Access]) -> Vec<Point> {
    let kept = if accesses.len() <= thin::MOST_POINTS {
        accesses.to_vec()
    } else {
        on_a_grid(accesses)
    };
    let words = |access: &Access| {
        format!(
            "{}: sector {} at {:.6} s",
            kind.words(),
            access.sector,
            seconds(access.time_ns)
        )
    };
    // What thousands of points mean when they are pointed at, their axes tell.
    let has_words = kept.len() <= 400;
    let point = |access: &Access| {
        let words = if has_words {
            words(access)
        } else {
            String::new()
        };
        Point::new(seconds(access.time_ns), gigabytes(access.sector), words)
    };
    kept.iter().map(point).collect()
}

/// The first access of each cell that has any, and the lowest and highest of each column.
fn on_a_grid(accesses: &[Access]) -> Vec<Access> {
    let begin = accesses[0].time_ns;
    let length = accesses[accesses.len() - 1].time_ns - begin + 1;
    let lowest = accesses
        .iter()
        .map(|access| access.sector)
        .min()
        .unwrap_or(0);
    let highest = accesses
        .iter()
        .map(|access| access.sector)
        .max()
        .unwrap_or(0);
    let share = |part: u64, whole: u64, cells: usize| -> usize {
        usize::try_from(u128::from(part) * cells as u128 / u128::from(whole)).unwrap_or(0)
    };
    let row_of = |access: &Access| share(access.sector - lowest, highest - lowest + 1, ROWS);
    let mut kept = Vec::new();
    let mut rest = accesses;
    while let Some(first) = rest.first() {
        let column_of =
            |access: &Access| share(access.time_ns.saturating_sub(begin), length, COLUMNS);
        let column = column_of(first);
        let size = rest
            .iter()
            .take_while(|access| column_of(access) <= column)
            .count()
            .max(1);
        let (stretch, after) = rest.split_at(size);
        keep_column(stretch, row_of, &mut kept);
        rest = after;
    }
    kept
}

fn keep_column(stretch: &[Access], row_of: impl Fn(&Access) -> usize, kept: &mut Vec<Access>) {
    let by_sector = |&a: &usize, &b: &usize| stretch[a].sector.cmp(&stretch[b].sector);
    let mut chosen: Vec<usize> = (0..stretch.len()).min_by(by_sector).into_iter().collect();
    chosen.extend((0..stretch.len()).max_by(by_sector));
    let mut seen = [false; ROWS];
    for (index, access) in stretch.iter().enumerate() {
        let row = row_of(access).min(ROWS - 1);
        if !std::mem::replace(&mut seen[row], true) {
            chosen.push(index);
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    kept.extend(chosen.into_iter().map(|index| stretch[index]));
}

/// Data submitted and not yet given to the disk.
fn waiting(traffic: &Traffic) -> Chart {
    let most = traffic.waiting.iter().map(|level| level.amount).max();
    let (unit, size) = if most.unwrap_or(0) < 2000 {
        ("kB", 1e3)
    } else {
        ("MB", 1e6)
    };
    let chart = levels(&traffic.waiting, 512.0 / size, unit);
    Chart {
        id: "waiting".into(),
        title: "What waits in the scheduler".into(),
        caption: format!(
            "Data submitted and not yet given to the disk. Merging does not change it.{}",
            chart.caption
        ),
        y: Axis::new(format!("waiting, {unit}"), Scale::FromZero),
        ..chart
    }
}

/// Requests that the disk holds.
fn at_disk(traffic: &Traffic) -> Chart {
    let chart = levels(&traffic.at_disk, 1.0, "requests");
    Chart {
        id: "queue".into(),
        title: "Queue length at the disk".into(),
        caption: format!(
            "Requests given to the disk and not yet completed.{}",
            chart.caption
        ),
        y: Axis::new("requests at the disk", Scale::FromZero),
        ..chart
    }
}

/// Stretches of time that have a mean each, where there are too many changes to be seen.
const STRETCHES: usize = 200;

fn levels(levels: &[Level], each: f64, unit: &str) -> Chart {
    let amount = |level: &Level| level.amount as f64 * each;
    let all = levels
        .iter()
        .map(|level| Point::new(seconds(level.time_ns), amount(level), ""));
    let points = thin::thin(all.collect());
    let is_dense = levels.len() > 2 * STRETCHES;
    let shown = if points.len() < levels.len() {
        format!(
            " Of {} changes the grey line shows of each stretch of time the first, the lowest, the highest \
             and the last;",
            levels.len()
        )
    } else {
        " The grey line is each change;".to_owned()
    };
    let mut series = vec![Series {
        name: if is_dense { "lowest to highest" } else { unit }.to_owned(),
        slot: 0,
        form: if is_dense { Form::Haze } else { Form::Steps },
        points,
    }];
    let note = if is_dense {
        let points = means(levels)
            .map(|(time, level)| Point::new(time, level * each, ""))
            .collect();
        series.push(Series {
            name: "mean over time".to_owned(),
            slot: 0,
            form: Form::Line,
            points,
        });
        format!("{shown} the other one is the mean of each of {STRETCHES} stretches.")
    } else {
        String::new()
    };
    let most = levels.iter().map(amount).fold(0.0, f64::max);
    Chart {
        id: String::new(),
        title: String::new(),
        caption: note,
        alternative: format!(
            "at most {most:.3} {unit}; mean over time {:.3} {unit}",
            mean(levels) * each
        ),
        x: time_axis(),
        y: Axis::new("", Scale::FromZero),
        series,
        marks: Vec::new(),
        trials: Vec::new(),
    }
}

/// The mean of each of [`STRETCHES`] stretches of time, at its middle (s).
fn means(levels: &[Level]) -> impl Iterator<Item = (f64, f64)> + '_ {
    let begin = levels.first().map_or(0, |level| level.time_ns);
    let end = levels.last().map_or(0, |level| level.time_ns);
    let width = ((end - begin) / STRETCHES as u64).max(1);
    let mut now = 0;
    let mut rest = levels;
    (0..STRETCHES as u64).map(move |stretch| {
        let (from, to) = (begin + stretch * width, begin + (stretch + 1) * width);
        let (inside, after) = rest.split_at(rest.partition_point(|level| level.time_ns < to));
        rest = after;
        let mut known = vec![Level {
            time_ns: from,
            amount: now,
        }];
        known.extend_from_slice(inside);
        now = known[known.len() - 1].amount;
        known.push(Level {
            time_ns: to,
            amount: now,
        });
        (seconds(from + width / 2), mean(&known))
    })
}

/// The mean over time: each level counts as long as it lasted.
fn mean(levels: &[Level]) -> f64 {
    let pairs = levels.windows(2);
    let area: f64 = pairs
        .map(|pair| {
            pair[0].amount as f64 * (pair[1].time_ns.saturating_sub(pair[0].time_ns)) as f64
        })
        .sum();
    match (levels.first(), levels.last()) {
        (Some(first), Some(last)) if last.time_ns > first.time_ns => {
            area / (last.time_ns - first.time_ns) as f64
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_far_seek_among_a_million_stays_in_the_picture() {
        let mut accesses: Vec<Access> = (0..1_000_000)
            .map(|index| Access {
                time_ns: index * 1000,
                sector: index % 5000,
            })
            .collect();
        accesses[345_678].sector = 9_999_999;
        let kept = on_a_grid(&accesses);
        assert!(kept.len() < 9000, "{}", kept.len());
        assert!(kept.contains(&accesses[345_678]));
        assert!(
            kept.windows(2)
                .all(|pair| pair[0].time_ns <= pair[1].time_ns)
        );
    }

    #[test]
    fn a_level_counts_as_long_as_it_lasts() {
        let level = |time_ns, amount| Level { time_ns, amount };
        let levels = [level(0, 1), level(10, 4), level(20, 0), level(40, 0)];
        assert!((mean(&levels) - 50.0 / 40.0).abs() < 1e-12);
    }

    #[test]
    fn the_means_of_stretches_have_the_mean_of_all() {
        let level = |time: u64| Level {
            time_ns: time * 1000,
            amount: time * 7919 % 32,
        };
        let levels: Vec<Level> = (0..=100_000).map(level).collect();
        let means: Vec<(f64, f64)> = means(&levels).collect();
        assert_eq!(means.len(), STRETCHES);
        let all = means.iter().map(|(_, mean)| mean).sum::<f64>() / STRETCHES as f64;
        assert!(
            (all - mean(&levels)).abs() < 1e-9,
            "{all} {}",
            mean(&levels)
        );
    }
}
