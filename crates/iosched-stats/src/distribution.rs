//! Student's t, the normal and the chi-square distribution: as much of them as the rest of this crate needs.
//!
//! Follows Abramowitz and Stegun, *Handbook of Mathematical Functions*, 6.5, 26.2, 26.5 and 26.7.
//! The incomplete beta and gamma functions are evaluated by Lentz's continued fraction, `ln Γ` by the
//! Lanczos series with g = 7. Relative error stays below 1e-9 where we use them (the tests compare
//! with `SciPy`). Left out: everything that a table of trials does not ask for.

use std::f64::consts::PI;

/// `P(T <= t)` for Student's t with `df` degrees of freedom (a real number above 0).
pub(crate) fn student_t_cdf(t: f64, df: f64) -> f64 {
    assert!(df > 0.0, "degrees of freedom must be positive, not {df}");
    let tail = 0.5 * incomplete_beta(df / 2.0, 0.5, df / (df + t * t));
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The `t` with `P(T <= t) = p`.
///
/// Newton's method on the logarithms of the tail and of `t`, between which the relation is nearly a straight line; near
/// the middle bisection.
pub(crate) fn student_t_quantile(p: f64, df: f64) -> f64 {
    assert!(
        p > 0.0 && p < 1.0,
        "a quantile needs 0 < probability < 1, not {p}"
    );
    let tail = p.min(1.0 - p);
    let sign = if p < 0.5 { -1.0 } else { 1.0 };
    let by_bisection = || bisect(|t| student_t_cdf(-t, df) <= tail);
    if tail > 0.4 {
        return sign * by_bisection();
    }
    let front = (ln_gamma(0.5 * (df + 1.0)) - ln_gamma(0.5 * df)).exp() / (df * PI).sqrt();
    let step = |t: f64| {
        let there = student_t_cdf(-t, df);
        let density = front * (-0.5 * (df + 1.0) * (t * t / df).ln_1p()).exp();
        (there / tail).ln() * there / (density * t)
    };
    sign * newton(normal_quantile(1.0 - tail), step).unwrap_or_else(by_bisection)
}

/// Multiplies `x` by `exp(step(x))` until it stays; `None` if it does not.
fn newton(mut x: f64, step: impl Fn(f64) -> f64) -> Option<f64> {
    const STEPS: usize = 40;
    for _ in 0..STEPS {
        let by = step(x);
        x *= by.exp();
        if !(x.is_finite() && x > 0.0) {
            return None;
        }
        if by.abs() < 1e-13 {
            return Some(x);
        }
    }
    None
}

/// `P(Z <= z)` for the standard normal distribution.
pub(crate) fn normal_cdf(z: f64) -> f64 {
    let tail = 0.5 * upper_incomplete_gamma_half(z * z / 2.0);
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// The `z` with `P(Z <= z) = p`; infinite at 0 and 1.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    assert!(
        (0.0..=1.0).contains(&p),
        "a probability is in [0, 1], not {p}"
    );
    let tail = p.min(1.0 - p);
    let sign = if p < 0.5 { -1.0 } else { 1.0 };
    if tail == 0.0 {
        return sign * f64::INFINITY;
    }
    let by_bisection = || bisect(|z| normal_cdf(-z) <= tail);
    if tail > 0.4 {
        return sign * by_bisection();
    }
    let step = |z: f64| {
        let there = normal_cdf(-z);
        let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
        (there / tail).ln() * there / (density * z)
    };
    // As long as the tail is far out the logarithm of it is about -z²/2.
    let from = (-2.0 * tail.ln()).sqrt();
    sign * newton(from, step).unwrap_or_else(by_bisection)
}

/// `P(X <= x)` for chi-square with `df` degrees of freedom (a real number above 0).
pub(crate) fn chi_square_cdf(x: f64, df: f64) -> f64 {
    assert!(df > 0.0, "degrees of freedom must be positive, not {df}");
    lower_incomplete_gamma(df / 2.0, x / 2.0)
}

/// The smallest `x >= 0` at which `reached` is true; `reached` must stay true beyond it.
pub(crate) fn bisect(reached: impl Fn(f64) -> bool) -> f64 {
    if reached(0.0) {
        return 0.0;
    }
    let mut above = 1.0;
    while !reached(above) {
        above *= 2.0;
        if !f64::is_finite(above) {
            return f64::INFINITY;
        }
    }
    let mut below = 0.0;
    for _ in 0..200 {
        let middle = 0.5 * (below + above);
        if middle <= below || middle >= above {
            break;
        }
        if reached(middle) {
            above = middle;
        } else {
            below = middle;
        }
    }
    above
}

/// `ln Γ(x)` for x > 0.
pub(crate) fn ln_gamma(x: f64) -> f64 {
    const G: f64 = 7.0;
    const COEFFICIENTS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        return (PI / (PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let base = x + G + 0.5;
    let mut sum = COEFFICIENTS[0];
    for (step, coefficient) in COEFFICIENTS.iter().enumerate().skip(1) {
        sum += coefficient / (x + step as f64);
    }
    0.5 * (2.0 * PI).ln() + (x + 0.5) * base.ln() - base + sum.ln()
}

/// The regularised incomplete beta function `I_x(a, b)`.
pub(crate) fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    // The fraction converges fast on the left of the mean; the symmetry brings us there.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

/// The continued fraction 26.5.8 of Abramowitz and Stegun.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    lentz(|step| {
        let m = (step / 2) as f64;
        let numerator = if step == 0 {
            1.0
        } else if step % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        (numerator, 1.0)
    })
}

/// `Q(1/2, x)`, the upper regularised incomplete gamma function, which is `erfc(sqrt(x))`.
fn upper_incomplete_gamma_half(x: f64) -> f64 {
    if x < 1.5 {
        // The series 6.5.29 of the lower function.
        let mut term = 2.0;
        let mut sum = term;
        let mut a = 0.5;
        while term > sum * 1e-17 {
            a += 1.0;
            term *= x / a;
            sum += term;
        }
        1.0 - sum * (0.5 * (x / PI).ln() - x).exp()
    } else {
        // The continued fraction 6.5.31.
        let fraction = lentz(|step| {
            let k = step as f64;
            if step == 0 {
                (1.0, x + 0.5)
            } else {
                (-k * (k - 0.5), x + 0.5 + 2.0 * k)
            }
        });
        fraction * (0.5 * (x / PI).ln() - x).exp()
    }
}

/// The regularised lower incomplete gamma function `P(a, x)`: the series 6.5.29 left of the mean, the continued fraction
/// 6.5.31 right of it.
fn lower_incomplete_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let mut term = 1.0 / a;
        let mut sum = term;
        let mut next = a;
        while term > sum * 1e-17 {
            next += 1.0;
            term *= x / next;
            sum += term;
        }
        sum * front
    } else {
        let fraction = lentz(|step| {
            let k = step as f64;
            if step == 0 {
                (1.0, x + 1.0 - a)
            } else {
                (-k * (k - a), x + 1.0 - a + 2.0 * k)
            }
        });
        1.0 - front * fraction
    }
}

/// A continued fraction `a0 / (b0 + a1 / (b1 + …))` by Lentz's method; `term` gives `(a, b)`.
fn lentz(term: impl Fn(usize) -> (f64, f64)) -> f64 {
    const TINY: f64 = 1e-300;
    const STEPS: usize = 10_000;
    let away_from_zero = |x: f64| if x.abs() < TINY { TINY } else { x };
    let (mut value, mut c, mut d) = (TINY, TINY, 0.0);
    for step in 0..STEPS {
        let (a, b) = term(step);
        d = 1.0 / away_from_zero(b + a * d);
        c = away_from_zero(b + a / c);
        let change = c * d;
        value *= change;
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(ours: f64, expected: f64) {
        let error = (ours - expected).abs() / expected.abs().max(1e-300);
        assert!(error < 1e-9, "{ours} is not {expected} (error {error:e})");
    }

    // python3 -c "from scipy.stats import t; print(repr(t.ppf(0.975, 4)))" and so on (SciPy 1.17.1).
    #[test]
    fn student_t_agrees_with_scipy() {
        for (p, df, expected) in [
            (0.975, 1.0, 12.706_204_736_174_694),
            (0.975, 2.0, 4.302_652_729_749_462),
            (0.975, 4.0, 2.776_445_105_197_793_4),
            (0.975, 29.0, 2.045_229_642_132_703),
            (0.995_833_333_333_333_3, 4.0, 4.851_008_443_097_864),
            (0.999_9, 3.0, 22.203_742_273_205),
            (0.6, 7.5, 0.262_501_898_804_294_86),
        ] {
            assert_close(student_t_quantile(p, df), expected);
            assert_close(student_t_quantile(1.0 - p, df), -expected);
        }
        for (t, df, expected) in [
            (2.0, 1.0, 0.852_416_382_349_566_7),
            (2.0, 5.0, 0.949_030_260_585_070_8),
            (-1.3, 11.0, 0.110_090_631_349_920_92),
            (12.7, 2.0, 0.996_928_529_200_202_1),
            (0.3, 200.0, 0.617_755_634_905_336),
        ] {
            assert_close(student_t_cdf(t, df), expected);
        }
    }

    #[test]
    fn quantiles_invert_their_distributions_out_to_where_tails_are_tiny() {
        for tail in [1e-290, 1e-40, 1e-12, 1e-4, 0.01, 0.3, 0.399, 0.401, 0.5] {
            assert_close(normal_cdf(normal_quantile(tail)), tail);
            for df in [1.0, 2.0, 4.5, 30.0, 1e6] {
                let t = student_t_quantile(tail, df);
                if t.is_finite() && t * t < f64::MAX {
                    assert_close(student_t_cdf(t, df), tail);
                }
            }
        }
    }

    // python3 -c "from scipy.stats import norm; print(repr(norm.ppf(0.975)), repr(norm.cdf(-5)))"
    #[test]
    fn normal_agrees_with_scipy() {
        for (p, expected) in [
            (0.975, 1.959_963_984_540_054),
            (1e-6, -4.753_424_308_822_899),
            (0.999_9, 3.719_016_485_455_709),
            (0.2, -0.841_621_233_572_914_2),
        ] {
            assert_close(normal_quantile(p), expected);
        }
        for (z, expected) in [
            (-5.0, 2.866_515_718_791_933e-7),
            (-1.96, 0.024_997_895_148_220_435),
            (0.3, 0.617_911_422_188_952_6),
            (2.575_829_303_548_900_4, 0.995),
        ] {
            assert_close(normal_cdf(z), expected);
        }
        assert!(normal_quantile(0.5).abs() < 1e-12);
        assert!(normal_quantile(1.0).is_infinite());
    }

    #[test]
    fn chi_square_agrees_with_tables_and_closed_forms() {
        // Of two degrees of freedom it is the exponential distribution, of one the square of a normal number.
        for x in [0.01_f64, 0.5, 2.0, 7.0, 30.0] {
            assert_close(chi_square_cdf(x, 2.0), -(-x / 2.0).exp_m1());
            assert_close(chi_square_cdf(x, 1.0), 2.0 * normal_cdf(x.sqrt()) - 1.0);
            // Of four: 1 - (1 + x/2) exp(-x/2).
            let of_four = 1.0 - (1.0 + x / 2.0) * (-x / 2.0).exp();
            assert!((chi_square_cdf(x, 4.0) - of_four).abs() < 1e-12);
        }
        // Abramowitz and Stegun, table 26.8: 95 % and 5 % of ten and of 100 degrees of freedom.
        for (x, df, p) in [
            (18.3070, 10.0, 0.95),
            (3.940_30, 10.0, 0.05),
            (124.342, 100.0, 0.95),
            (77.9295, 100.0, 0.05),
        ] {
            assert!((chi_square_cdf(x, df) - p).abs() < 1e-5, "{x} {df}");
        }
    }

    // python3 -c "from scipy.special import betainc, gammaln; print(betainc(40, 60, .41), gammaln(3.7))"
    #[test]
    fn incomplete_beta_and_gamma_agree_with_scipy() {
        for (a, b, x, expected) in [
            (0.5, 0.5, 0.3, 0.369_010_119_565_545_36),
            (2.0, 3.0, 0.25, 0.261_718_75),
            (10.0, 0.5, 0.9, 0.151_640_909_634_709_94),
            (40.0, 60.0, 0.41, 0.585_775_793_800_961_8),
        ] {
            assert_close(incomplete_beta(a, b, x), expected);
        }
        for (x, expected) in [
            (0.5, 0.572_364_942_924_7),
            (1.5, -0.120_782_237_635_245_26),
            (3.7, 1.428_072_326_665_388),
            (20.0, 39.339_884_187_199_495),
            (100.25, 360.284_559_637_764_23),
        ] {
            assert_close(ln_gamma(x), expected);
        }
    }
}
