//! Environment of the commands: the name and address of their own host, and the addresses of the others.

use crate::{HostName, Side, Spec};

/// Variables of a command on the host `own`, as names and values.
pub(crate) fn environment(spec: &Spec, own: HostName) -> Vec<(String, String)> {
    let usual = |host: HostName| host.address(spec.only_ipv6).to_string();
    let list = |side| spec.hosts(side).map(usual).collect::<Vec<_>>().join(" ");
    let [near, far] = [Side::Near, Side::Far].map(HostName::from);
    let mut variables = vec![
        ("FARLUN_HOST".to_owned(), own.to_string()),
        ("FARLUN_ADDRESS".to_owned(), usual(own)),
        ("FARLUN_NEAR".to_owned(), usual(near)),
        ("FARLUN_FAR".to_owned(), usual(far)),
        ("FARLUN_NEAR6".to_owned(), near.ipv6().to_string()),
        ("FARLUN_FAR6".to_owned(), far.ipv6().to_string()),
        ("FARLUN_NEARS".to_owned(), list(Side::Near)),
        ("FARLUN_FARS".to_owned(), list(Side::Far)),
    ];
    for host in [Side::Near, Side::Far].into_iter().flat_map(|side| spec.hosts(side)) {
        let name = host.to_string().to_uppercase();
        variables.push((format!("FARLUN_ADDRESS_{name}"), usual(host)));
        variables.push((format!("FARLUN_ADDRESS6_{name}"), host.ipv6().to_string()));
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::BTreeMap;
    use std::time::Duration;

    use event::BitRate;

    #[test]
    fn everybody_knows_everybody() {
        let plain = Spec::new(Duration::ZERO, BitRate(1_000_000), None, 1500);
        let spec = Spec { near_hosts: 2, ..plain };
        let of = |spec: &Spec| -> BTreeMap<_, _> {
            environment(spec, "near2".parse().expect("a host")).into_iter().collect()
        };
        let variables = of(&spec);
        for (name, value) in [
            ("FARLUN_HOST", "near2"),
            ("FARLUN_ADDRESS", "198.18.0.12"),
            ("FARLUN_FAR", "198.18.0.2"),
            ("FARLUN_NEARS", "198.18.0.1 198.18.0.12"),
            ("FARLUN_FARS", "198.18.0.2"),
            ("FARLUN_ADDRESS_NEAR2", "198.18.0.12"),
            ("FARLUN_ADDRESS6_FAR", "2001:2::2"),
        ] {
            assert_eq!(variables[name], value, "{name}");
        }
        assert!(!variables.contains_key("FARLUN_ADDRESS_NEAR3"));
        assert_eq!(of(&Spec { only_ipv6: true, ..spec })["FARLUN_NEARS"], "2001:2::1 2001:2::12");
    }
}
