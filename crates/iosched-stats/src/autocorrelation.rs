//! How well a trial's own course tells its mean: the autocorrelation of its slices.
//!
//! Slices of a trial are no independent observations: a queue that is full stays full for a while. The standard error of
//! their mean is that of `n / g` independent ones, where `g`, the *statistical inefficiency*, is one plus twice the sum of
//! the autocorrelations. That sum is cut off where what is left of it is noise, by the initial monotone sequence:
//! sums of neighbouring pairs are taken for as long as they are positive, and none for more than the one before.
//!
//! - C. J. Geyer, *Practical Markov chain Monte Carlo*, Statistical Science 7 (1992), section 3.3
//! - A. D. Sokal, *Monte Carlo methods in statistical mechanics* (1997): `g` slices are twice the integrated
//!   autocorrelation time
//!
//! Geyer's theorem is about reversible Markov chains, which a disk is none of; for others it is a rule of thumb. Left out:
//! trends. A series that rises from its beginning to its end counts as one that remembers for as long as it lasts.

/// With fewer values nothing is said.
pub const FEWEST: usize = 20;

/// What a series tells of its mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesMean {
    /// The mean.
    pub mean: f64,
    /// So many values of the series tell as much as an independent one: 1 if none remembers the one before.
    pub inefficiency: f64,
    /// The standard error of the mean, as a part of it.
    pub relative_error: f64,
}

/// The mean of a series of equally spaced values; `None` of fewer than [`FEWEST`], and where the mean is not positive.
///
/// The inefficiency is at most half of the number of values: a series that short cannot say that it remembers for longer.
pub fn series_mean(values: &[f64]) -> Option<SeriesMean> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < FEWEST || !(mean > 0.0 && mean.is_finite()) {
        return None;
    }
    let centred: Vec<f64> = values.iter().map(|value| value / mean - 1.0).collect();
    let covariance = |lag: usize| {
        let pairs = centred.iter().zip(&centred[lag..]);
        pairs.map(|(a, b)| a * b).sum::<f64>() / n
    };
    let variance = covariance(0);
    if variance.is_nan() || variance <= 0.0 {
        return Some(SeriesMean {
            mean,
            inefficiency: 1.0,
            relative_error: 0.0,
        });
    }
    let (mut sum, mut before) = (0.0, f64::INFINITY);
    for lag in (0..values.len() - 1).step_by(2) {
        let pair = (covariance(lag) + covariance(lag + 1)) / variance;
        if pair <= 0.0 {
            break;
        }
        before = pair.min(before);
        sum += before;
    }
    let inefficiency = (2.0 * sum - 1.0).clamp(1.0 / n, n / 2.0);
    // Squares around the series' own mean are too small by the variance of that mean.
    let squared_error = variance * inefficiency / (n - inefficiency);
    Some(SeriesMean {
        mean,
        inefficiency,
        relative_error: squared_error.sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use proptest::prelude::*;

    /// `x[t] = memory x[t-1] + noise`, around 100: `g` is `(1 + memory) / (1 - memory)`.
    fn remembering(memory: f64, count: usize, seed: u64) -> Vec<f64> {
        let mut chance = Chance::new(seed, 0);
        let mut state = chance.normal() / (1.0 - memory * memory).sqrt();
        let step = |_| {
            let value = 100.0 + state;
            state = memory * state + chance.normal();
            value
        };
        (0..count).map(step).collect()
    }

    // NumPy 1.24: x = np.array([...]); d = x/x.mean()-1; c = [np.sum(d[:24-k]*d[k:])/24 for k in range(24)]
    // G = [(c[k]+c[k+1])/c[0] for k in range(0,23,2)]; S = list(itertools.takewhile(lambda v: v>0, G))
    // g = 2*np.minimum.accumulate(S).sum()-1; print(g, np.sqrt(c[0]*g/(24-g)))
    #[test]
    fn a_series_agrees_with_numpy() {
        let values = [
            52.0, 55.0, 49.0, 58.0, 61.0, 57.0, 63.0, 60.0, 59.0, 64.0, 58.0, 55.0, 51.0, 54.0,
            48.0, 45.0, 50.0, 44.0, 47.0, 43.0, 46.0, 49.0, 52.0, 48.0,
        ];
        let found = series_mean(&values).unwrap();
        assert!(
            (found.mean - 52.833_333_333_333_336).abs() < 1e-9,
            "{found:?}"
        );
        assert!(
            (found.inefficiency - 6.248_469_778_117_828).abs() < 1e-9,
            "{found:?}"
        );
        assert!((found.relative_error - 0.067_662_411_225_799_8).abs() < 1e-12);
    }

    #[test]
    fn the_inefficiency_of_long_series_is_the_known_one() {
        for (memory, within) in [(-0.5, 0.1), (0.0, 0.1), (0.5, 0.1), (0.9, 0.15)] {
            let known = (1.0 + memory) / (1.0 - memory);
            let found = series_mean(&remembering(memory, 40_000, 7)).unwrap();
            let ratio = found.inefficiency / known;
            assert!(
                (1.0 - within..1.0 + within).contains(&ratio),
                "{memory}: {ratio}"
            );
        }
    }

    /// As short as a trial's: the squared error is, on average, that of the mean.
    #[test]
    fn the_error_of_short_series_is_about_that_of_their_means() {
        for (memory, [least, most]) in [(0.0, [0.8, 1.2]), (0.5, [0.75, 1.2]), (0.8, [0.6, 1.2])] {
            let means: Vec<SeriesMean> = (0..2000)
                .map(|seed| series_mean(&remembering(memory, 50, seed)).unwrap())
                .collect();
            let runs = means.len() as f64;
            let spread = means
                .iter()
                .map(|one| (one.mean - 100.0).powi(2))
                .sum::<f64>()
                / runs;
            let said = means
                .iter()
                .map(|one| (one.relative_error * one.mean).powi(2));
            let ratio = said.sum::<f64>() / runs / spread;
            assert!((least..most).contains(&ratio), "{memory}: {ratio}");
        }
    }

    #[test]
    fn a_constant_series_has_no_error_and_a_short_one_says_nothing() {
        let constant = series_mean(&[5.0; FEWEST]).unwrap();
        assert_eq!((constant.relative_error, constant.inefficiency), (0.0, 1.0));
        assert_eq!(series_mean(&[5.0; FEWEST - 1]), None);
        assert_eq!(series_mean(&[0.0; 50]), None);
        assert_eq!(series_mean(&[f64::NAN; 50]), None);
        assert_eq!(series_mean(&[]), None);
    }

    #[test]
    fn a_series_that_only_rises_remembers_for_a_large_part_of_its_length() {
        let rising: Vec<f64> = (1..=50).map(f64::from).collect();
        assert!(series_mean(&rising).unwrap().inefficiency > 10.0);
    }

    proptest! {
        #[test]
        fn an_error_is_a_number_whatever_the_values_and_has_no_unit(
            values in prop::collection::vec(0.0_f64..1e12, FEWEST..80),
            scale in 1e-3_f64..1e3,
        ) {
            if let Some(found) = series_mean(&values) {
                prop_assert!(found.relative_error.is_finite() && found.relative_error >= 0.0);
                prop_assert!(found.inefficiency > 0.0);
                prop_assert!(found.inefficiency <= values.len() as f64 / 2.0);
                let scaled: Vec<f64> = values.iter().map(|value| value * scale).collect();
                let scaled = series_mean(&scaled).unwrap();
                prop_assert!((scaled.relative_error - found.relative_error).abs() < 1e-6 * (1.0 + found.relative_error));
            }
        }
    }
}
