//! Long series made short: what a screen cannot show is left out, what an eye must not miss stays.
//!
//! Every stretch of the horizontal axis keeps its first, lowest, highest and last point, so that a
//! single spike among five million points is still there.

use super::Point;

/// Points that a chart may have in one series.
pub(super) const MOST_POINTS: usize = 1600;

/// The series, or as much of it as [`MOST_POINTS`] allows.
pub(super) fn thin(points: Vec<Point>) -> Vec<Point> {
    thin_to(points, MOST_POINTS)
}

/// The series, or of each of `most / 4` equal stretches its first, lowest, highest and last point.
/// Points are in the order of the horizontal axis.
pub(super) fn thin_to(points: Vec<Point>, most: usize) -> Vec<Point> {
    if points.len() <= most {
        return points;
    }
    let stretches = (most / 4).max(1);
    let first = points[0].x;
    let width = (points[points.len() - 1].x - first) / stretches as f64;
    let stretch_of = |point: &Point| ((point.x - first) / width.max(f64::MIN_POSITIVE)).floor();
    let mut kept = Vec::with_capacity(most + 4);
    let mut begin = 0;
    while begin < points.len() {
        let stretch = stretch_of(&points[begin]);
        let length = points[begin..]
            .iter()
            .take_while(|point| stretch_of(point) <= stretch)
            .count()
            .max(1);
        keep(&points[begin..begin + length], &mut kept);
        begin += length;
    }
    kept
}

/// First, lowest, highest and last of a stretch, in its order, each once.
fn keep(stretch: &[Point], kept: &mut Vec<Point>) {
    let by_value = |&a: &usize, &b: &usize| stretch[a].y.total_cmp(&stretch[b].y);
    let lowest = (0..stretch.len()).min_by(by_value).unwrap_or(0);
    let highest = (0..stretch.len()).max_by(by_value).unwrap_or(0);
    let mut chosen = [0, lowest, highest, stretch.len() - 1];
    chosen.sort_unstable();
    let mut last = None;
    for index in chosen {
        if last != Some(index) {
            kept.push(stretch[index].clone());
            last = Some(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_single_spike_among_many_points_stays() {
        let mut points: Vec<Point> = (0..100_000)
            .map(|index| Point::new(f64::from(index), 1.0, ""))
            .collect();
        points[54_321].y = 99.0;
        points[77_777].y = -99.0;
        let kept = thin(points.clone());
        assert!(kept.len() <= MOST_POINTS + 4, "{}", kept.len());
        for spike in [54_321, 77_777] {
            assert!(
                kept.iter()
                    .any(|kept| kept.x.to_bits() == points[spike].x.to_bits())
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn what_is_kept_is_of_the_series_in_its_order_with_its_extremes(
            values in prop::collection::vec(-1e6f64..1e6, 1..9_000),
        ) {
            let points: Vec<Point> = values.iter().enumerate()
                .map(|(index, &value)| Point::new(index as f64, value, "")).collect();
            let kept = thin(points.clone());
            prop_assert!(kept.len() <= MOST_POINTS + 4);
            prop_assert!(kept.windows(2).all(|pair| pair[0].x < pair[1].x));
            let extreme = |points: &[Point]| points.iter()
                .fold((f64::MAX, f64::MIN), |(low, high), p| (low.min(p.y), high.max(p.y)));
            prop_assert_eq!(extreme(&kept), extreme(&points));
            prop_assert_eq!(kept.first(), points.first());
            prop_assert_eq!(kept.last(), points.last());
        }
    }
}
