//! Tests the guarantees of admission without sockets. `tests/wire/admission.rs` tests them over
//! sockets.

use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use spillway_base::budget::{Budget, Use};
use spillway_base::rng::Rng;

use super::*;

struct Fixture {
    admission: Arc<Admission>,
    budget: Budget,
    connections_max: usize,
}

impl Fixture {
    fn new(connections_max: usize) -> Fixture {
        let budget = Budget::new(64 << 20);
        Fixture { admission: Arc::default(), budget, connections_max }
    }

    fn try_admit(&self, entrance: Entrance, address: u8) -> Result<Admitted, u16> {
        let raw = Arc::new(UnixStream::pair().unwrap().0.into());
        let address = Some(IpAddr::from([10, 0, 0, address]));
        let charge = || self.budget.charge(Use::Connections, 1);
        self.admission
            .admit(raw, entrance, address, self.connections_max, charge)
            .map_err(|error| error.code)
    }

    fn admit(&self, address: u8) -> Slot {
        self.try_admit(Entrance::Public, address).unwrap().slot
    }

    fn log_in(&self, slot: &Slot, is_root: bool) -> Result<usize, u16> {
        let authenticated = self.admission.authenticate(slot.id, is_root, self.connections_max);
        authenticated.map_err(|error| error.code)
    }

    fn is_evicted(&self, slot: &Slot) -> bool {
        self.admission.connections.lock().open[&slot.id].stage == AdmissionStage::Evicted
    }
}

#[test]
fn admission_1_unauthenticated_connections_take_no_place() {
    let fixture = Fixture::new(2);
    let silent: Vec<_> = (0..UNAUTHENTICATED_MIN as u8).map(|n| fixture.admit(n)).collect();
    let mut clients = Vec::new();
    let mut next = |is_root| {
        clients.push(fixture.admit(100 + clients.len() as u8));
        fixture.log_in(clients.last().unwrap(), is_root)
    };
    assert_eq!(next(true), Ok(1));
    assert_eq!(next(false), Ok(2));
    assert_eq!(next(false), Err(1040));
    assert!(!fixture.admission.is_over(2));
    assert_eq!(next(true), Ok(3));
    assert!(fixture.admission.is_over(2));
    assert_eq!(next(true), Err(1040));
    // A second login of one connection takes no second place.
    assert_eq!(fixture.log_in(&clients[0], true), Ok(3));
    drop(clients);
    drop(silent);
    let figures = fixture.admission.figures();
    assert_eq!((figures.open, figures.unauthenticated), (0, 0));
}

#[test]
fn admission_2_the_oldest_of_the_busiest_source_makes_way() {
    let fixture = Fixture::new(1);
    let lone = fixture.admit(1);
    let busy: Vec<_> = (1..UNAUTHENTICATED_MIN).map(|_| fixture.admit(2)).collect();
    let newcomer = fixture.admit(3);
    assert!(fixture.is_evicted(&busy[0]) && !fixture.is_evicted(&lone));
    let again = fixture.try_admit(Entrance::Public, 2).unwrap();
    assert_eq!(again.evicted, 1);
    assert!(fixture.is_evicted(&busy[1]) && !fixture.is_evicted(&again.slot));
    // A closed connection cannot log in any more; the others can.
    assert_eq!(fixture.log_in(&busy[0], true), Err(1040));
    assert_eq!(fixture.log_in(&newcomer, false), Ok(1));
}

#[test]
fn admission_2_a_source_of_ipv6_is_a_network() {
    let of = |text: &str| AdmissionSource::from(Some(text.parse().unwrap()));
    assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
}

#[test]
fn admission_3_those_closed_and_not_released_are_bounded() {
    let fixture = Fixture::new(1);
    let mut slots: Vec<_> = (0..2 * UNAUTHENTICATED_MIN).map(|_| fixture.admit(1)).collect();
    assert_eq!(fixture.try_admit(Entrance::Public, 2).map(drop), Err(1040));
    slots.remove(0);
    let next = fixture.admit(2);
    assert!(fixture.is_evicted(&slots[UNAUTHENTICATED_MIN - 1]) && !fixture.is_evicted(&next));
    assert_eq!(fixture.try_admit(Entrance::Public, 2).map(drop), Err(1040));
}

#[test]
fn admission_4_the_admin_socket_is_counted_apart() {
    let fixture = Fixture::new(1);
    let admin = fixture.try_admit(Entrance::Admin, 1).unwrap().slot;
    let flood: Vec<_> = (0..2 * UNAUTHENTICATED_MIN).map(|_| fixture.admit(1)).collect();
    assert_eq!(fixture.try_admit(Entrance::Public, 1).map(drop), Err(1040));
    assert_eq!(fixture.log_in(flood.last().unwrap(), false), Ok(1));
    assert_eq!(fixture.log_in(&admin, false), Ok(1));
    let more: Vec<_> = (1..ADMIN_MAX)
        .map(|_| {
            let slot = fixture.try_admit(Entrance::Admin, 1).unwrap().slot;
            fixture.log_in(&slot, false).unwrap();
            slot
        })
        .collect();
    let extra = fixture.try_admit(Entrance::Admin, 1).unwrap().slot;
    assert_eq!(fixture.log_in(&extra, true), Err(1040));
    assert!(!fixture.admission.is_over(1), "they take no place of others");
    assert_eq!(fixture.admission.figures().admin, ADMIN_MAX);
    drop(more);
    assert_eq!(fixture.log_in(&extra, false), Ok(2));
}

#[test]
fn admission_5_a_place_is_free_again_however_its_thread_ends() {
    let fixture = Fixture::new(1);
    for _ in 0..3 {
        let (first, second) = (fixture.admit(1), fixture.admit(1));
        fixture.log_in(&second, false).unwrap();
        assert_eq!(fixture.budget.used_for(Use::Connections), 2);
        drop(first);
        let panicked = catch_unwind(AssertUnwindSafe(move || {
            let _slot = second;
            // This panic is intended, so the hook must not report it.
            resume_unwind(Box::new(()));
        }));
        assert!(panicked.is_err());
        assert_eq!(fixture.admission.figures().open, 0);
        assert_eq!(fixture.budget.used_for(Use::Connections), 0);
    }
}

/// ADMISSION-1 to ADMISSION-5: after any step, the counts are those of the open connections, and
/// the victim is the one that a search of all connections finds.
#[test]
fn admission_2_counts_and_victims_agree_with_a_search() {
    let fixture = Fixture::new(20);
    let mut rng = Rng::new(11);
    let mut slots: Vec<Slot> = Vec::new();
    let mut evictions = 0;
    for _ in 0..20_000 {
        match rng.below(8) {
            0 if !slots.is_empty() => {
                slots.swap_remove(rng.below(slots.len() as u64) as usize);
            }
            1 if !slots.is_empty() => {
                let slot = &slots[rng.below(slots.len() as u64) as usize];
                let _ = fixture.log_in(slot, rng.below(4) == 0);
            }
            2 => slots.retain(|slot| !fixture.is_evicted(slot) || rng.below(2) == 0),
            _ => {
                let address = rng.below(6) as u8;
                let victim = {
                    let connections = fixture.admission.connections.lock();
                    let mut by_source: HashMap<AdmissionSource, Vec<u64>> = HashMap::new();
                    for (&id, open) in &connections.open {
                        if open.stage == AdmissionStage::Unauthenticated {
                            by_source.entry(open.source).or_default().push(id);
                        }
                    }
                    let newcomer = AdmissionSource(Some(IpAddr::from([10, 0, 0, address])));
                    by_source.entry(newcomer).or_default().push(connections.last_id + 1);
                    let count = by_source.values().map(Vec::len).sum::<usize>();
                    let oldest = |ids: &Vec<u64>| *ids.iter().min().unwrap();
                    let busiest =
                        by_source.values().max_by_key(|ids| (ids.len(), Reverse(oldest(ids))));
                    (count > 20).then(|| oldest(busiest.unwrap()))
                };
                match fixture.try_admit(Entrance::Public, address) {
                    Ok(admitted) => {
                        assert_eq!(admitted.evicted, usize::from(victim.is_some()));
                        evictions += admitted.evicted;
                        slots.push(admitted.slot);
                        let stage = |id| fixture.admission.connections.lock().open[&id].stage;
                        assert!(victim.is_none_or(|id| stage(id) == AdmissionStage::Evicted));
                    }
                    Err(code) => assert_eq!(code, 1040),
                }
            }
        }
        let connections = fixture.admission.connections.lock();
        let of = |stage| connections.open.values().filter(|open| open.stage == stage).count();
        let counted = &connections.public;
        assert_eq!(connections.open.len(), slots.len());
        assert_eq!(counted.unauthenticated.count, of(AdmissionStage::Unauthenticated));
        assert_eq!(counted.evicted, of(AdmissionStage::Evicted));
        assert_eq!(counted.authenticated, of(AdmissionStage::Authenticated));
        assert!(counted.unauthenticated.count <= 20 && counted.evicted <= 20);
        assert!(counted.authenticated <= 21);
    }
    assert!(evictions > 100, "{evictions}");
}
