//! Ranges of addresses, written as `10.0.0.0/8` or `fd00::/8`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use countersign_model::Failure;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A range of one family. IPv4 addresses are never inside an IPv6 range, in whatever spelling:
/// what carries IPv4 in IPv6 is judged by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Net {
    base: IpAddr,
    prefix: u8,
}

impl Net {
    pub(crate) const fn v4(base: [u8; 4], prefix: u8) -> Net {
        let [a, b, c, d] = base;
        Net { base: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    pub(crate) const fn v6(base: [u16; 8], prefix: u8) -> Net {
        let [a, b, c, d, e, f, g, h] = base;
        Net { base: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), prefix }
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        let ((base, width), (bits, other)) = (bits(self.base), bits(address));
        let hosts = width.saturating_sub(u32::from(self.prefix));
        // The whole of IPv6 shifts everything away; then every address is inside.
        width == other && (base ^ bits).checked_shr(hosts).unwrap_or(0) == 0
    }

    pub(crate) fn is_one_address(&self) -> bool {
        u32::from(self.prefix) == bits(self.base).1
    }
}

fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

impl FromStr for Net {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Net, Failure> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let base: IpAddr = address.parse().map_err(|_| invalid(text, "has no IP address"))?;
        let width = bits(base).1;
        let prefix = prefix.map_or(Some(width), |digits| length(digits, width));
        let prefix = prefix.ok_or_else(|| invalid(text, "has no such prefix length"))?;
        let net = Net { base, prefix: u8::try_from(prefix).unwrap_or(u8::MAX) };
        if host_bits(base, prefix) != 0 {
            return Err(invalid(text, "has address bits beyond its prefix"));
        }
        Ok(net)
    }
}

fn length(digits: &str, width: u32) -> Option<u32> {
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|prefix| plain && *prefix <= width)
}

fn host_bits(base: IpAddr, prefix: u32) -> u128 {
    let (bits, width) = bits(base);
    let network = u128::MAX.checked_shl(width.saturating_sub(prefix)).unwrap_or(0);
    bits & !network
}

fn invalid(text: &str, why: &str) -> Failure {
    let text = text.escape_debug();
    Failure::validation("NET_INVALID", format!("the network `{text}` {why}"))
        .hint("write it as 10.1.0.0/16, fd12:3456::/32 or as one address")
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

impl Serialize for Net {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Net {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_written() {
        for (text, written) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("127.0.0.1", "127.0.0.1/32"),
            ("::1", "::1/128"),
            ("fd00::/8", "fd00::/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(text.parse::<Net>().unwrap().to_string(), written);
        }
        for bad in [
            "",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.1/8",
            "::/129",
            "::1/64",
            "10/8",
            "010.0.0.0/8",
            "10.0.0.0/8/8",
            "fe80::1%eth0",
            "10.0.0.0/-1",
        ] {
            assert_eq!(bad.parse::<Net>().unwrap_err().code, "NET_INVALID", "{bad}");
        }
    }

    #[test]
    fn families_do_not_mix() {
        let inside =
            |net: &str, ip: &str| net.parse::<Net>().unwrap().contains(ip.parse().unwrap());
        assert!(inside("0.0.0.0/0", "8.8.8.8") && inside("::/0", "2000::1"));
        assert!(inside("10.0.0.0/8", "10.255.255.255") && !inside("10.0.0.0/8", "11.0.0.0"));
        assert!(!inside("::/0", "8.8.8.8") && !inside("0.0.0.0/0", "::ffff:8.8.8.8"));
    }
}
