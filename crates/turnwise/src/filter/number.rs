//! Numbers of any size, compared exactly: as JSON writes them, digit by digit. `f64` would take two large ids for the same.

use std::cmp::Ordering;

/// What an exponent may be at most: nothing real is beyond, and sums of two fit.
const MAX_EXPONENT: i64 = 1 << 60;

/// `0.DIGITS × 10^exponent`; no digits are zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// Neither the first nor the last is a zero.
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// `None`: not a number as JSON writes it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let end = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (whole, rest) = rest.split_at(end(rest));
        if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
            return None;
        }
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(end(rest)),
            None => ("0", rest),
        };
        let exponent = match rest.strip_prefix(['e', 'E']) {
            Some(rest) => {
                let (minus, digits) = match rest.strip_prefix('-') {
                    Some(digits) => (true, digits),
                    None => (false, rest.strip_prefix('+').unwrap_or(rest)),
                };
                if digits.is_empty() || end(digits) < digits.len() {
                    return None;
                }
                let size = digits.parse().unwrap_or(MAX_EXPONENT).min(MAX_EXPONENT);
                if minus { -size } else { size }
            }
            None if rest.is_empty() => 0,
            None => return None,
        };
        if fraction.is_empty() {
            return None;
        }
        let all = format!("{whole}{fraction}");
        let significant = all.trim_start_matches('0');
        if significant.is_empty() {
            return Some(Self { negative: false, digits: String::new(), exponent: 0 });
        }
        let length = |text: &str| i64::try_from(text.len()).unwrap_or(MAX_EXPONENT);
        let exponent = exponent + length(whole) - (length(&all) - length(significant));
        Some(Self { negative, digits: significant.trim_end_matches('0').to_owned(), exponent })
    }

    fn size(&self) -> (bool, i64, &str) {
        // Digits without zeros at their end are ordered as text is.
        (!self.digits.is_empty(), self.exponent, &self.digits)
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.size().cmp(&other.size()),
            (true, true) => other.size().cmp(&self.size()),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::parse(text).unwrap_or_else(|| panic!("{text} is a number"))
    }

    #[test]
    fn large_numbers_are_told_apart_and_equal_ones_are_equal_however_they_are_written() {
        assert!(number("9007199254740993") > number("9007199254740992"));
        assert!(number("1e400") > number("1e399") && number("-1e400") < number("-1e399"));
        assert!(
            number("1e99999999999999999999999") > number("1e9") && number("1e-99999999999999999999999") > number("0")
        );
        for (one, other) in [("10", "1e1"), ("1.50", "1.5"), ("0.001", "1E-3"), ("-0", "0.0e7"), ("120e-1", "12")] {
            assert_eq!(number(one), number(other), "{one} {other}");
        }
    }

    #[test]
    fn only_what_json_takes_for_a_number_is_one() {
        for text in ["", "-", "+1", "01", ".5", "1.", "1e", "1e+", "0x10", "1_000", "NaN", "inf", "1 ", "１"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn whole_numbers_are_ordered_as_they_are(one: i64, other: i64) {
            prop_assert_eq!(number(&one.to_string()).cmp(&number(&other.to_string())), one.cmp(&other));
        }

        #[test]
        fn fractions_are_ordered_as_they_are(one in -1e9..1e9_f64, other in -1e9..1e9_f64, near in 0.0..2.0_f64) {
            for other in [other, one * near] {
                let (left, right) = (format!("{one:e}"), format!("{other}"));
                prop_assert_eq!(number(&left).partial_cmp(&number(&right)), one.partial_cmp(&other));
            }
        }
    }
}
