//! The addresses that no sandbox reaches, whatever name leads there.
//!
//! Reviewed data: one line a range, with its reason. The sources are the IANA special-purpose
//! address registries and the documents of the cloud providers.

use std::net::{IpAddr, Ipv4Addr};

use crate::net::Net;

/// Whether an operator may open a range, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opened {
    /// By naming a network that holds the address.
    ByNet,
    /// By naming the very address. A wider network, meant for something else, does not open what
    /// hands out the credentials of the machine.
    ByAddress,
    /// Not at all: the address only wraps another one, which can be named itself.
    Never,
}

use Opened::{ByAddress, ByNet, Never};

#[derive(Debug)]
struct Range {
    net: Net,
    opened: Opened,
    what: &'static str,
}

const fn v4(base: [u8; 4], prefix: u8, opened: Opened, what: &'static str) -> Range {
    Range { net: Net::v4(base, prefix), opened, what }
}

const fn v6(base: [u16; 8], prefix: u8, opened: Opened, what: &'static str) -> Range {
    Range { net: Net::v6(base, prefix), opened, what }
}

#[rustfmt::skip]
const FORBIDDEN: &[Range] = &[
    v4([169, 254, 169, 254], 32, ByAddress, "the metadata service of a cloud"),
    v4([169, 254, 170, 2],   32, ByAddress, "the credentials service of AWS containers"),
    v4([100, 100, 100, 200], 32, ByAddress, "the metadata service of Alibaba Cloud"),
    v4([168, 63, 129, 16],   32, ByAddress, "the wire server of Azure"),
    v4([192, 0, 0, 192],     32, ByAddress, "the metadata service of Oracle Cloud"),
    v4([0, 0, 0, 0],          8, ByNet, "this network (RFC 791)"),
    v4([10, 0, 0, 0],         8, ByNet, "a private network (RFC 1918)"),
    v4([100, 64, 0, 0],      10, ByNet, "a carrier's shared network (RFC 6598)"),
    v4([127, 0, 0, 0],        8, ByNet, "the loopback network"),
    v4([169, 254, 0, 0],     16, ByNet, "the link-local network (RFC 3927)"),
    v4([172, 16, 0, 0],      12, ByNet, "a private network (RFC 1918)"),
    v4([192, 0, 0, 0],       24, ByNet, "a network for protocols (RFC 6890)"),
    v4([192, 0, 2, 0],       24, ByNet, "a network for documentation (RFC 5737)"),
    v4([192, 88, 99, 0],     24, ByNet, "the relays of 6to4 (RFC 7526)"),
    v4([192, 168, 0, 0],     16, ByNet, "a private network (RFC 1918)"),
    v4([198, 18, 0, 0],      15, ByNet, "a network for benchmarks (RFC 2544)"),
    v4([198, 51, 100, 0],    24, ByNet, "a network for documentation (RFC 5737)"),
    v4([203, 0, 113, 0],     24, ByNet, "a network for documentation (RFC 5737)"),
    v4([224, 0, 0, 0],        4, ByNet, "multicast (RFC 5771)"),
    v4([255, 255, 255, 255], 32, ByNet, "the broadcast address"),
    v4([240, 0, 0, 0],        4, ByNet, "reserved (RFC 1112)"),

    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, ByAddress, "the metadata service of AWS"),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23],  128, ByAddress, "the credentials service of AWS containers"),
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254],  128, ByAddress, "the metadata service of Google Cloud"),
    v6([0, 0, 0, 0, 0, 0, 0, 0],              128, ByNet, "the unspecified address"),
    v6([0, 0, 0, 0, 0, 0, 0, 1],              128, ByNet, "the loopback address"),
    v6([0, 0, 0, 0, 0, 0xffff, 0, 0],          96, Never, "IPv4 mapped into IPv6 (RFC 4291)"),
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0],       96, Never, "IPv4 behind NAT64 (RFC 6052)"),
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0],       48, Never, "IPv4 behind a local NAT64 (RFC 8215)"),
    v6([0x100, 0, 0, 0, 0, 0, 0, 0],           64, ByNet, "the discard prefix (RFC 6666)"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0],          32, Never, "IPv4 inside Teredo (RFC 4380)"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0],          23, ByNet, "a network for protocols (RFC 2928)"),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0],      32, ByNet, "a network for documentation (RFC 3849)"),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0],          16, Never, "IPv4 inside 6to4 (RFC 3056)"),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0],          20, ByNet, "a network for documentation (RFC 9637)"),
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0],          16, ByNet, "segment routing (RFC 9602)"),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0],           7, ByNet, "a private network (RFC 4193)"),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0],          10, ByNet, "the link-local network (RFC 4291)"),
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0],          10, ByNet, "a site-local network (RFC 3879)"),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0],           8, ByNet, "multicast (RFC 4291)"),
    // `ByNet`, because `::1` lies inside and is no IPv4 address. No system routes the others.
    v6([0, 0, 0, 0, 0, 0, 0, 0],               96, ByNet, "IPv4 written as IPv6 (RFC 4291)"),
    // Only 2000::/3 is given out. What is not, is not the internet.
    v6([0, 0, 0, 0, 0, 0, 0, 0],                3, ByNet, "not a global address"),
    v6([0x4000, 0, 0, 0, 0, 0, 0, 0],           2, ByNet, "not a global address"),
    v6([0x8000, 0, 0, 0, 0, 0, 0, 0],           1, ByNet, "not a global address"),
];

/// Why nothing may connect to this address, unless the operator's exceptions open it.
pub(crate) fn forbidden(address: IpAddr, exceptions: &[Net]) -> Option<String> {
    let range = FORBIDDEN.iter().find(|range| range.closes(address, exceptions))?;
    let inside = carried(address).and_then(|v4| forbidden(IpAddr::V4(v4), &[]));
    Some(match inside {
        Some(inside) => format!("{}, there {inside}", range.what),
        None => range.what.to_owned(),
    })
}

impl Range {
    /// An address in several ranges must be opened in each of them.
    fn closes(&self, address: IpAddr, exceptions: &[Net]) -> bool {
        self.net.contains(address) && !self.is_opened(address, exceptions)
    }

    fn is_opened(&self, address: IpAddr, exceptions: &[Net]) -> bool {
        let mut naming = exceptions.iter().filter(|net| net.contains(address));
        match self.opened {
            ByNet => naming.next().is_some(),
            ByAddress => naming.any(Net::is_one_address),
            Never => false,
        }
    }
}

/// The IPv4 address that an IPv6 address carries. Only for the message: the carriers are refused
/// whatever is inside.
fn carried(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address else { return None };
    let pair = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match v6.segments() {
        // These two are addresses of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0x2002, high, low, ..] => Some(pair(high, low)),
        // Teredo writes the client's address with every bit flipped.
        [0x2001, 0, .., high, low] => Some(pair(!high, !low)),
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => Some(pair(high, low)),
        [0x64, 0xff9b, 0 | 1, .., high, low] => Some(pair(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(address: &str, exceptions: &[&str]) -> Option<String> {
        let exceptions: Vec<Net> = exceptions.iter().map(|net| net.parse().unwrap()).collect();
        forbidden(address.parse().unwrap(), &exceptions)
    }

    /// A range by its first and last address, and the nearest addresses outside that are public.
    /// `-` stands where the neighbour belongs to another forbidden range.
    #[rustfmt::skip]
    const EDGES: &[(&str, &str, &str, &str)] = &[
        ("-", "0.0.0.0", "0.255.255.255", "1.0.0.0"),
        ("9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
        ("100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"),
        ("-", "100.100.100.200", "100.100.100.200", "-"),
        ("126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"),
        ("168.63.129.15", "168.63.129.16", "168.63.129.16", "168.63.129.17"),
        ("169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"),
        ("-", "169.254.169.254", "169.254.169.254", "-"),
        ("-", "169.254.170.2", "169.254.170.2", "-"),
        ("172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"),
        ("191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"),
        ("-", "192.0.0.192", "192.0.0.192", "-"),
        ("192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"),
        ("192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"),
        ("192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"),
        ("198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"),
        ("198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"),
        ("203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"),
        ("223.255.255.255", "224.0.0.0", "239.255.255.255", "-"),
        ("-", "240.0.0.0", "255.255.255.255", "-"),
        ("-", "255.255.255.255", "255.255.255.255", "-"),
        ("-", "::", "::", "-"),
        ("-", "::1", "::1", "-"),
        ("-", "::", "::ffff:ffff", "-"),
        ("-", "::ffff:0.0.0.0", "::ffff:255.255.255.255", "-"),
        ("-", "64:ff9b::", "64:ff9b::ffff:ffff", "-"),
        ("-", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "-"),
        ("-", "100::", "100::ffff:ffff:ffff:ffff", "-"),
        ("-", "::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::"),
        ("-", "2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", "-"),
        ("2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"),
        ("2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"),
        ("2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"),
        ("3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"),
        ("3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "4000::", "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "-"),
        ("-", "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "-"),
        ("-", "8000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "-"),
        ("-", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "-"),
        ("-", "fd00:ec2::254", "fd00:ec2::254", "-"),
        ("-", "fd00:ec2::23", "fd00:ec2::23", "-"),
        ("-", "fd20:ce::254", "fd20:ce::254", "-"),
        ("-", "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "-"),
        ("-", "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "-"),
        ("-", "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "-"),
    ];

    #[test]
    fn every_range_ends_where_it_should() {
        for (before, first, last, after) in EDGES {
            for inside in [first, last] {
                assert!(why(inside, &[]).is_some(), "{inside} is open");
            }
            for outside in [before, after].into_iter().filter(|text| **text != "-") {
                assert_eq!(why(outside, &[]), None, "{outside} is public");
            }
        }
    }

    /// Each line of the table is one row above, exactly: neither end has moved.
    #[test]
    fn the_table_and_the_edges_agree() {
        for range in FORBIDDEN {
            let edge = |of: &str| of.parse::<IpAddr>().unwrap();
            let fits = |(_, first, last, _): &&(&str, &str, &str, &str)| {
                let (first, last) = (edge(first), edge(last));
                range.net.contains(first)
                    && range.net.contains(last)
                    && !step(first, false).is_some_and(|ip| range.net.contains(ip))
                    && !step(last, true).is_some_and(|ip| range.net.contains(ip))
            };
            assert_eq!(EDGES.iter().filter(fits).count(), 1, "{}: {}", range.net, range.what);
        }
        assert_eq!(FORBIDDEN.len(), EDGES.len());
    }

    fn step(ip: IpAddr, up: bool) -> Option<IpAddr> {
        match ip {
            IpAddr::V4(v4) => {
                let bits = v4.to_bits();
                let next = if up { bits.checked_add(1) } else { bits.checked_sub(1) };
                next.map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))
            }
            IpAddr::V6(v6) => {
                let bits = v6.to_bits();
                let next = if up { bits.checked_add(1) } else { bits.checked_sub(1) };
                next.map(|bits| IpAddr::V6(std::net::Ipv6Addr::from_bits(bits)))
            }
        }
    }

    #[test]
    fn what_is_carried_is_named_and_refused_either_way() {
        for (address, inside) in [
            ("::ffff:127.0.0.1", "loopback"),
            ("::127.0.0.1", "loopback"),
            ("64:ff9b::a00:1", "RFC 1918"),
            ("64:ff9b:1::169.254.169.254", "metadata"),
            ("2002:7f00:1::", "loopback"),
            ("2001:0:1:2:3:4:80ff:fffe", "loopback"),
        ] {
            let why = why(address, &[]).unwrap();
            assert!(why.contains(", there ") && why.contains(inside), "{address}: {why}");
        }
        for address in ["::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::", "::8.8.8.8"] {
            assert!(!why(address, &[]).unwrap().contains("there"), "{address}");
        }
    }

    #[test]
    fn exceptions_open_what_they_name() {
        assert_eq!(why("127.0.0.1", &["127.0.0.0/8"]), None);
        assert_eq!(why("::1", &["::1"]), None);
        assert_eq!(why("10.1.2.3", &["192.168.0.0/16", "10.1.0.0/16"]), None);
        assert!(why("10.2.0.1", &["10.1.0.0/16"]).is_some());
        assert!(why("::ffff:127.0.0.1", &["127.0.0.0/8", "::/0"]).is_some());
        assert!(why("64:ff9b::a00:1", &["10.0.0.0/8", "64:ff9b::/96"]).is_some());
        for metadata in ["169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192"] {
            assert!(why(metadata, &["0.0.0.0/0"]).is_some(), "{metadata} opened by the way");
            assert_eq!(why(metadata, &[metadata]), None);
        }
        assert!(why("fd00:ec2::254", &["fd00::/8"]).is_some());
        assert_eq!(why("fd00:ec2::254", &["fd00:ec2::254"]), None);
    }
}
