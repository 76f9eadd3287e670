//! What a session forgets when it is made again.

use engine::trace::Sampling;
use event::{WindowKind, WindowNotice};
use proto::params::Params;

use super::*;

#[test]
fn what_an_old_session_was_told_is_not_for_the_connections_of_the_next() {
    let session = || {
        let params = Params { peer_software: Some("farlun/1".to_owned()), ..Params::default() };
        Session::new(params, 1, 128, 1)
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 3260));
    let tables = Tables::create(None, Sampling::default()).expect("no table is asked for");
    let mut side = Side::new((session(), address), (tables, None), Duration::from_secs(30), Instant::ZERO);
    let notice = WindowNotice { kind: WindowKind::CutByLoss, cwnd_packets: 9, mss_bytes: 1448 };
    let words = [Notification::Part(Some(131_072)), Notification::Window(notice)];
    for word in &words {
        let (code, data) = notification::emit(word);
        side.hear(0, code, &data);
    }
    assert_eq!(side.told, words.map(|word| (0, word)));
    side.begin_again(session(), address);
    assert_eq!(side.told, []);
}
