//! A time as a log gave it, with what it did not say kept as not known.

use jiff::civil;

/// A point in time read from a line. Many logs leave out the year, the date
/// or the zone; what is missing is never guessed, only marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds since 1970-01-01 of the civil time as written, taken as if UTC.
    /// Where the year is not known it counts from 1972 (a leap year), where
    /// the date is not known from 1970-01-01.
    pub nanos: i64,
    /// Offset from UTC in seconds, where the line said it (`Z` is 0).
    pub offset: Option<i32>,
    /// Whether the year was written.
    pub year: bool,
    /// Whether month and day were written.
    pub date: bool,
}

impl Stamp {
    /// From the parts of a civil time. `None` when they are no date and time.
    #[must_use]
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        year: Option<i16>,
        date: Option<(i8, i8)>,
        (hour, minute, second): (i8, i8, i8),
        nanos: i32,
        offset: Option<i32>,
    ) -> Option<Self> {
        let (month, day) = date.unwrap_or((1, 1));
        let base = year.unwrap_or(if date.is_some() { 1972 } else { 1970 });
        let time = civil::DateTime::new(base, month, day, hour, minute, second, nanos).ok()?;
        let at = jiff::tz::Offset::UTC.to_timestamp(time).ok()?;
        let nanos = i64::try_from(at.as_nanosecond()).ok()?;
        Some(Self { nanos, offset, year: year.is_some(), date: date.is_some() })
    }

    /// From nanoseconds since the epoch in UTC.
    #[must_use]
    pub fn from_epoch_nanos(nanos: i64) -> Self {
        Self { nanos, offset: Some(0), year: true, date: true }
    }

    /// Nanoseconds that may be compared with those of `other`, or `None`
    /// when the two do not know the same parts of the date.
    #[must_use]
    pub fn comparable(&self, other: &Self) -> Option<(i64, i64)> {
        (self.year == other.year
            && self.date == other.date
            && self.offset.is_some() == other.offset.is_some())
        .then(|| (self.utc(), other.utc()))
    }

    /// Nanoseconds with the offset taken off, where it is known.
    #[must_use]
    pub fn utc(&self) -> i64 {
        self.nanos - i64::from(self.offset.unwrap_or(0)) * 1_000_000_000
    }

    /// The same with the year that brings it nearest to `other`, where its own was not written. `None` where neither
    /// tells a year, or it has no date.
    #[must_use]
    pub fn near(&self, other: &Self) -> Option<Self> {
        if self.year || !self.date || !other.year {
            return self.year.then_some(*self);
        }
        let civil = |nanos: i64| {
            let at = jiff::Timestamp::from_nanosecond(i128::from(nanos)).ok()?;
            Some(jiff::tz::Offset::UTC.to_datetime(at))
        };
        let (own, year) = (civil(self.nanos)?, civil(other.nanos)?.year());
        let all = (year - 1..=year + 1).filter_map(|year| {
            let time = (own.hour(), own.minute(), own.second());
            let date = (own.month(), own.day());
            Self::new(Some(year), Some(date), time, own.subsec_nanosecond(), self.offset)
        });
        all.min_by_key(|t| (t.utc() - other.utc()).abs())
    }

    /// RFC 3339 where year and date are known: with `Z` where the zone is,
    /// without any offset where it is not. `None` otherwise.
    #[must_use]
    pub fn rfc3339(&self) -> Option<String> {
        if !(self.year && self.date) {
            return None;
        }
        let ts = jiff::Timestamp::from_nanosecond(i128::from(self.utc())).ok()?;
        let text = ts.to_string();
        Some(if self.offset.is_some() { text } else { text.trim_end_matches('Z').to_string() })
    }

    /// The form for people: as much of date and time as is known.
    #[must_use]
    pub fn text(&self) -> String {
        let Ok(ts) = jiff::Timestamp::from_nanosecond(i128::from(self.utc())) else {
            return String::new();
        };
        let full = ts.to_string();
        let full = full.trim_end_matches('Z');
        let full = full.split('.').next().unwrap_or(full).replace('T', " ");
        match (self.year, self.date) {
            (true, _) => full,
            (false, true) => full.get(5..).unwrap_or("").to_string(),
            (false, false) => full.get(11..).unwrap_or("").to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Stamp;

    #[test]
    fn an_unknown_zone_stays_unknown() {
        let s = Stamp::new(Some(2026), Some((3, 4)), (5, 6, 7), 0, None).unwrap();
        assert_eq!(s.rfc3339().as_deref(), Some("2026-03-04T05:06:07"));
        let z = Stamp::new(Some(2026), Some((3, 4)), (5, 6, 7), 0, Some(3600)).unwrap();
        assert_eq!(z.rfc3339().as_deref(), Some("2026-03-04T04:06:07Z"));
        assert_eq!(s.comparable(&z), None);
    }

    #[test]
    fn glog_has_no_year() {
        let s = Stamp::new(None, Some((12, 18)), (20, 27, 21), 0, None).unwrap();
        assert_eq!(s.rfc3339(), None);
        assert_eq!(s.text(), "12-18 20:27:21");
        assert!(Stamp::new(None, Some((13, 1)), (0, 0, 0), 0, None).is_none());
        let new_year = Stamp::new(Some(2027), Some((1, 1)), (0, 10, 0), 0, None).unwrap();
        assert_eq!(s.near(&new_year).unwrap().text(), "2026-12-18 20:27:21");
        assert_eq!(s.near(&s), None);
    }
}
