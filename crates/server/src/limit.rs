//! How often somebody may ask: buckets that fill with time and are emptied by requests.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use axum::http::{StatusCode, header};
use countersign_model::Timestamp;
use serde_json::json;

use crate::error::Refusal;

/// So many at once, and so many a second in the long run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    pub burst: u32,
    pub per_second: f64,
}

/// The rates there are; absent means without limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    pub key: Option<Rate>,
    pub tenant: Option<Rate>,
    /// For each tenant and route.
    pub route: Option<Rate>,
    pub global: Option<Rate>,
    /// For each address, of those who show no good key.
    pub address: Option<Rate>,
}

/// What is left in a bucket, in millionths of a request, and since when. Whole numbers, so that
/// what a client is told to wait is exactly what it has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    level: u64,
    at: Timestamp,
}

const ONE: u64 = 1_000_000;

impl Rate {
    fn capacity(self) -> u64 {
        u64::from(self.burst).saturating_mul(ONE)
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and a negative rate is none"
    )]
    fn per_milli(self) -> u64 {
        (self.per_second * 1000.0).round() as u64
    }
}

impl Bucket {
    pub fn full(rate: Rate, now: Timestamp) -> Bucket {
        Bucket { level: rate.capacity(), at: now }
    }

    /// A clock that was set back fills nothing.
    fn filled(self, rate: Rate, now: Timestamp) -> Bucket {
        let millis = u64::try_from(now.millis_since(self.at)).unwrap_or(0);
        let level = self.level.saturating_add(millis.saturating_mul(rate.per_milli()));
        Bucket { level: level.min(rate.capacity()), at: self.at.max(now) }
    }

    fn is_full(self, rate: Rate, now: Timestamp) -> bool {
        self.filled(rate, now).level >= rate.capacity()
    }

    /// Takes one, or says in how many milliseconds there will be one.
    pub fn take(&mut self, rate: Rate, now: Timestamp) -> Result<(), u64> {
        *self = self.filled(rate, now);
        match self.level.checked_sub(ONE) {
            Some(rest) => {
                self.level = rest;
                Ok(())
            }
            None => Err(wait_millis(ONE.saturating_sub(self.level), rate)),
        }
    }

    fn give_back(&mut self) {
        self.level = self.level.saturating_add(ONE);
    }
}

/// Nobody is told to wait for longer.
const MAX_WAIT_MILLIS: u64 = 3_600_000;

fn wait_millis(missing: u64, rate: Rate) -> u64 {
    let never = rate.per_milli() == 0 || rate.burst == 0;
    let millis = missing.div_ceil(rate.per_milli().max(1));
    if never { MAX_WAIT_MILLIS } else { millis.min(MAX_WAIT_MILLIS) }
}

/// What a bucket is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Whose {
    Key(String),
    Tenant(String),
    Route {
        tenant: String,
        operation: &'static str,
    },
    Global,
    Address(IpAddr),
    /// All addresses together that there is no room to tell apart.
    Strangers,
}

impl Whose {
    /// Whoever has one address of version 6 has a whole network of them.
    pub fn at(address: IpAddr) -> Whose {
        match address.to_canonical() {
            IpAddr::V6(long) => {
                let network = long.to_bits() >> 64 << 64;
                Whose::Address(IpAddr::V6(Ipv6Addr::from_bits(network)))
            }
            short => Whose::Address(short),
        }
    }

    pub fn scope(&self) -> &'static str {
        match self {
            // The protocol has no word for an address; it stands for the key that is not there.
            Whose::Key(_) | Whose::Address(_) | Whose::Strangers => "key",
            Whose::Tenant(_) => "tenant",
            Whose::Route { .. } => "route",
            Whose::Global => "global",
        }
    }
}

/// All buckets of a host. Those that are full again are forgotten, so there are never more than
/// were used lately.
#[derive(Debug)]
pub struct Limiter {
    rates: Rates,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    of: HashMap<Whose, Bucket>,
    tidied: Option<Timestamp>,
}

/// With more buckets than this, full ones are thrown out before one is added.
const TIDY_ABOVE: usize = 10_000;
/// Looking through all of them is not done more often than this.
const TIDY_EVERY_MILLIS: i64 = 100;
/// With so many, no further address gets one of its own: whoever has a network to ask from shall
/// not fill the memory.
const MOST_ADDRESSES: usize = 50_000;

impl Limiter {
    pub fn new(rates: Rates) -> Limiter {
        Limiter { rates, buckets: Mutex::default() }
    }

    /// Takes one from every bucket of a request, or from none of them.
    pub fn take(&self, whose: &[Whose], now: Timestamp) -> Result<(), Refusal> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken: Vec<&Whose> = Vec::new();
        for who in whose {
            let Some(rate) = self.rate(who) else { continue };
            self.tidy(&mut buckets, now);
            let who = buckets.room_for(who);
            let bucket = entry(&mut buckets.of, who, || Bucket::full(rate, now));
            if let Err(millis) = bucket.take(rate, now) {
                give_back(&mut buckets.of, &taken);
                return Err(limited(who.scope(), rate, millis));
            }
            taken.push(who);
        }
        Ok(())
    }

    fn rate(&self, whose: &Whose) -> Option<Rate> {
        match whose {
            Whose::Key(_) => self.rates.key,
            Whose::Tenant(_) => self.rates.tenant,
            Whose::Route { .. } => self.rates.route,
            Whose::Global => self.rates.global,
            Whose::Address(_) | Whose::Strangers => self.rates.address,
        }
    }

    fn tidy(&self, buckets: &mut Buckets, now: Timestamp) {
        let lately = |at: Timestamp| now.millis_since(at).abs() < TIDY_EVERY_MILLIS;
        if buckets.of.len() > TIDY_ABOVE && !buckets.tidied.is_some_and(lately) {
            let used = |who: &Whose, bucket: &mut Bucket| {
                self.rate(who).is_some_and(|rate| !bucket.is_full(rate, now))
            };
            buckets.of.retain(used);
            buckets.tidied = Some(now);
        }
    }
}

impl Buckets {
    fn room_for<'w>(&self, who: &'w Whose) -> &'w Whose {
        let full = self.of.len() >= MOST_ADDRESSES;
        match who {
            Whose::Address(_) if full && !self.of.contains_key(who) => &Whose::Strangers,
            who => who,
        }
    }
}

fn give_back(buckets: &mut HashMap<Whose, Bucket>, taken: &[&Whose]) {
    for who in taken {
        if let Some(bucket) = buckets.get_mut(*who) {
            bucket.give_back();
        }
    }
}

fn entry<'m, K: Eq + Hash + Clone, V>(
    map: &'m mut HashMap<K, V>,
    key: &K,
    make: impl FnOnce() -> V,
) -> &'m mut V {
    map.entry(key.clone()).or_insert_with(make)
}

/// The header counts whole seconds, rounded up; the body has the exact wait.
fn limited(scope: &str, rate: Rate, millis: u64) -> Refusal {
    let message = "too many requests; wait and ask again";
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message)
        .detail("retryAfterMs", json!(millis))
        .detail("scope", json!(scope))
        .detail("limit", json!(rate.burst))
        .header(header::RETRY_AFTER, &millis.div_ceil(1000).max(1).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: Rate = Rate { burst: 3, per_second: 2.0 };

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_bucket_empties_and_fills() {
        let mut bucket = Bucket::full(RATE, at(0));
        assert_eq!([0; 3].map(|_| bucket.take(RATE, at(0))), [Ok(()); 3]);
        assert_eq!(bucket.take(RATE, at(0)), Err(500));
        assert_eq!(bucket.take(RATE, at(499)), Err(1));
        assert_eq!(bucket.take(RATE, at(500)), Ok(()));
        assert_eq!(bucket.take(RATE, at(0)), Err(500), "the clock was set back");
        let never = Rate { burst: 0, per_second: 0.0 };
        assert_eq!(Bucket::full(never, at(0)).take(never, at(9)), Err(MAX_WAIT_MILLIS));
    }

    #[test]
    fn what_is_refused_costs_nothing_elsewhere() {
        let rates =
            Rates { key: Some(RATE), tenant: Some(Rate { burst: 1, ..RATE }), ..Rates::default() };
        let limiter = Limiter::new(rates);
        let ask = |key: &str| {
            let whose = [Whose::Key(key.to_owned()), Whose::Tenant("t".to_owned())];
            limiter.take(&whose, at(0)).map_err(|refusal| refusal.details["scope"].clone())
        };
        assert_eq!(ask("a"), Ok(()));
        for _ in 0..9 {
            assert_eq!(ask("a"), Err(json!("tenant")));
        }
        let whose = [Whose::Key("a".to_owned())];
        assert!((0..2).all(|_| limiter.take(&whose, at(0)).is_ok()));
        let refusal = limiter.take(&whose, at(0)).unwrap_err();
        assert_eq!(refusal.details["scope"], "key");
        assert_eq!((refusal.status.as_u16(), &*refusal.code), (429, "rate_limited"));
    }

    #[test]
    fn buckets_do_not_pile_up() {
        let limiter = Limiter::new(Rates { key: Some(RATE), ..Rates::default() });
        for n in 0..25_000 {
            let _ = limiter.take(&[Whose::Key(n.to_string())], at(n * 10));
        }
        // What comes between two times of looking through them stays a little longer.
        assert!(limiter.buckets.lock().unwrap().of.len() <= TIDY_ABOVE + 11);
    }

    #[test]
    fn a_network_of_addresses_fills_no_memory() {
        let limiter = Limiter::new(Rates { address: Some(RATE), ..Rates::default() });
        let ask =
            |n: u128| limiter.take(&[Whose::at(IpAddr::from((n << 64).to_be_bytes()))], at(0));
        let through = (0..60_000).filter(|n| ask(*n).is_ok()).count();
        assert_eq!(through, MOST_ADDRESSES + 3, "those without a bucket share one");
        assert!(limiter.buckets.lock().unwrap().of.len() <= MOST_ADDRESSES + 1);
        assert!(ask(7).is_ok(), "who has one keeps it");
    }

    #[test]
    fn one_customer_is_one_address() {
        let of = |text: &str| Whose::at(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    proptest! {
        /// Whatever the pattern, no more get through than the burst and what time has filled.
        #[test]
        fn no_more_than_the_rate_gets_through(steps in prop::collection::vec(0..400i64, 1..200)) {
            let mut bucket = Bucket::full(RATE, at(0));
            let (mut now, mut through) = (0, 0_i64);
            for step in steps {
                now += step;
                match bucket.take(RATE, at(now)) {
                    Ok(()) => through += 1,
                    Err(millis) => {
                        let later = at(now + i64::try_from(millis).unwrap());
                        prop_assert_eq!(bucket.clone().take(RATE, later), Ok(()));
                    }
                }
            }
            prop_assert!(through * 1000 <= 3000 + now * 2);
        }
    }
}
