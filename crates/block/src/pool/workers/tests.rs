//! Order, fairness and ends of jobs.

use super::*;
use net::{Events, Interest, Poll};

#[test]
fn every_job_has_its_result() {
    let workers = Workers::start(3, |n: u64| Step::Done(n * n)).unwrap();
    let (poll, mut events) = (Poll::new().unwrap(), Events::new());
    poll.add(workers.as_fd(), 0, Interest::READ).unwrap();
    (0..100).for_each(|n| workers.submit(claim(n % 7, (n % 3) as u16), n, n));
    let mut results = Vec::new();
    while results.len() < 100 {
        poll.wait(&mut events, None).unwrap();
        results.extend(workers.results());
    }
    assert_eq!(results.iter().sum::<u64>(), (0..100).map(|n| n * n).sum::<u64>());
}

/// One thread with a blocked first job, then two owners' jobs: those of the flooding owner do not all come first.
#[test]
fn a_flood_does_not_hold_up_another_owner() {
    let gate = Arc::new(Mutex::new(()));
    let held = gate.lock().unwrap();
    let begun = Arc::new(Mutex::new(Vec::new()));
    let workers = Workers::start(1, {
        let (gate, begun) = (Arc::clone(&gate), Arc::clone(&begun));
        move |n: u64| {
            drop(gate.lock());
            begun.lock().unwrap().push(n);
            Step::Done(())
        }
    })
    .unwrap();
    (0..100).for_each(|n| workers.submit(claim(1, 0), 4096, n));
    workers.submit(claim(2, 0), 4096, 1000);
    drop(held);
    drop(workers);
    let place = begun.lock().unwrap().iter().position(|n| *n == 1000).unwrap();
    assert!(place <= 2, "it came after {place} others");
}

#[test]
fn what_no_worker_has_begun_can_be_taken_back() {
    let gate = Arc::new(Mutex::new(()));
    let held = gate.lock().unwrap();
    let (began, begun) = std::sync::mpsc::channel();
    let workers = Workers::start(1, {
        let gate = Arc::clone(&gate);
        move |n: u64| {
            began.send(n).unwrap();
            drop(gate.lock());
            Step::Done(n)
        }
    })
    .unwrap();
    workers.submit(claim(1, 0), 4096, 0);
    assert_eq!(begun.recv(), Ok(0));
    (1..7).for_each(|n| workers.submit(claim(1 + n % 2, (n % 3) as u16), 4096, n));
    let mut taken = workers.take_back(1, |n| *n != 4);
    taken.sort_unstable();
    assert_eq!(taken, [2, 6], "those of another owner stay");
    drop(held);
    drop(workers);
    let mut done: Vec<_> = begun.iter().collect();
    done.sort_unstable();
    assert_eq!(done, [1, 3, 4, 5]);
}

/// Calls that are slow hold half of the threads at most; another owner's is served meanwhile.
#[test]
fn an_owner_whose_calls_are_slow_does_not_hold_all_threads() {
    let gate = Arc::new(Mutex::new(()));
    let held = gate.lock().unwrap();
    let work = {
        let gate = Arc::clone(&gate);
        move |n: u64| {
            if n < 100 {
                drop(gate.lock());
            }
            Step::Done(n)
        }
    };
    let workers = Workers::start(4, work).unwrap();
    let (poll, mut events) = (Poll::new().unwrap(), Events::new());
    poll.add(workers.as_fd(), 0, Interest::READ).unwrap();
    (0..50).for_each(|n| workers.submit(claim(1, 0), 4096, n));
    workers.submit(claim(2, 0), 4096, 100);
    poll.wait(&mut events, None).unwrap();
    assert_eq!(workers.results(), [100]);
    drop(held);
    let mut results = 0;
    while results < 50 {
        poll.wait(&mut events, None).unwrap();
        results += workers.results().len();
    }
}

/// Sixteen owners that a slow store keeps waiting do not hold up jobs of another store, their own included.
#[test]
fn a_store_that_is_slow_does_not_hold_all_threads() {
    let gate = Arc::new(Mutex::new(()));
    let held = gate.lock().unwrap();
    let work = {
        let gate = Arc::clone(&gate);
        move |n: u64| {
            if n < 100 {
                drop(gate.lock());
            }
            Step::Done(n)
        }
    };
    let workers = Workers::start(16, work).unwrap();
    let (poll, mut events) = (Poll::new().unwrap(), Events::new());
    poll.add(workers.as_fd(), 0, Interest::READ).unwrap();
    // Another store was used before, so threads are kept free for it.
    workers.submit(claim(50, 1), 4096, 100);
    poll.wait(&mut events, None).unwrap();
    assert_eq!(workers.results(), [100]);
    (0..96).for_each(|n| workers.submit(claim(n % 16, 0), 4096, n));
    for (owner, n) in [(50, 101), (3, 102), (60, 103)] {
        workers.submit(claim(owner, 1), 4096, n);
        poll.wait(&mut events, None).unwrap();
        assert_eq!(workers.results(), [n]);
    }
    drop(held);
    let mut results = 0;
    while results < 96 {
        poll.wait(&mut events, None).unwrap();
        results += workers.results().len();
    }
}

#[test]
fn nobody_is_woken_for_a_job_that_has_no_turn_yet() {
    let mut queues: Queues<u16, ()> = Queues::new(4);
    assert!(!queues.has_turn());
    for n in 0..4 {
        queues.push(claim(1, 0), 4096, n);
    }
    // One session has half of the threads, and the others are kept free for new ones.
    for expected in [true, false] {
        assert!(queues.has_turn() && queues.take().is_some());
        assert_eq!(queues.has_turn(), expected);
    }
    assert!(queues.take().is_none());
    queues.push(claim(2, 0), 4096, 9);
    assert!(queues.has_turn());
    assert_eq!(queues.take().map(|(claim, job)| (claim.owner, job)), Some((2, 9)));
    queues.release(claim(1, 0));
    assert!(queues.has_turn());
}

#[test]
fn one_that_was_slow_does_not_catch_up_at_the_expense_of_others() {
    let mut queues = Queues::new(4);
    let take = |queues: &mut Queues<u16, ()>| queues.take().map(|(claim, _)| claim.store);
    queues.push(claim(1, 0), 1 << 20, 0);
    queues.push(claim(2, 1), 1 << 20, 1);
    assert_eq!((take(&mut queues), take(&mut queues)), (Some(0), Some(1)));
    // The first one hangs while the other moves a lot.
    queues.push(claim(1, 0), 1 << 20, 0);
    queues.busy += 2;
    for _ in 0..100 {
        queues.release(claim(2, 1));
        queues.push(claim(2, 1), 1 << 20, 1);
        assert_eq!(take(&mut queues), Some(1));
    }
    queues.busy -= 2;
    queues.release(claim(1, 0));
    queues.release(claim(2, 1));
    let mut served = Vec::new();
    for _ in 0..10 {
        (0..2).for_each(|store| queues.push(claim(u64::from(store) + 1, store), 1 << 20, store));
        let store = take(&mut queues).unwrap();
        queues.release(claim(u64::from(store) + 1, store));
        served.push(store);
    }
    let first = served.iter().filter(|store| **store == 0).count();
    assert!((5..=6).contains(&first), "{served:?}");
}

fn claim(owner: u64, store: u16) -> Claim {
    Claim { owner, store }
}

#[test]
fn others_come_between_the_pieces_of_a_job() {
    let gate = Arc::new(Mutex::new(()));
    let held = gate.lock().unwrap();
    let done = Arc::new(Mutex::new(Vec::new()));
    let workers = Workers::start(1, {
        let (gate, done) = (Arc::clone(&gate), Arc::clone(&done));
        move |(owner, left): (u64, u32)| {
            drop(gate.lock());
            done.lock().unwrap().push((owner, left));
            match left {
                0 => Step::Done(()),
                _ => Step::More { bytes: 1 << 16, job: (owner, left - 1) },
            }
        }
    })
    .unwrap();
    workers.submit(claim(1, 0), 1 << 16, (1, 5));
    workers.submit(claim(1, 0), 1 << 16, (1, 0));
    workers.submit(claim(2, 0), 4096, (2, 0));
    drop(held);
    drop(workers);
    let done = done.lock().unwrap();
    let place = done.iter().position(|piece| *piece == (2, 0)).unwrap();
    assert!((1..=2).contains(&place), "{done:?}");
    let own: Vec<_> = done.iter().filter(|(owner, _)| *owner == 1).map(|(_, left)| *left).collect();
    assert_eq!(own, [5, 4, 3, 2, 1, 0, 0], "a job goes on before the next of its owner begins");
}

#[test]
fn no_threads_are_kept_free_for_a_store_that_was_released() {
    let mut queues: Queues<u16, ()> = Queues::new(2);
    queues.push(claim(9, 1), 4096, 0);
    assert!(queues.take().is_some());
    queues.release(claim(9, 1));
    (1..3).for_each(|owner| queues.push(claim(owner, 0), 4096, 0));
    assert!(queues.take().is_some());
    assert!(queues.take().is_none(), "the other thread is for the other store");
    queues.release_store(1);
    assert!(queues.has_turn() && queues.take().is_some(), "there is no other store");
    // It may come back.
    queues.push(claim(9, 1), 4096, 0);
    assert_eq!(queues.used, 2);
}
