use std::collections::HashSet;
use std::sync::Mutex;

use super::*;
use crate::tests::{TABLE, new};

#[test]
fn transactions_of_all_threads_have_numbers_of_their_own() {
    let all = Mutex::new(HashSet::new());
    spillway_base::thread::together(4, |_| {
        let mine: Vec<u64> = (0..3000).map(|_| next_id()).collect();
        all.lock().unwrap().extend(mine);
    });
    assert_eq!(all.into_inner().unwrap().len(), 4 * 3000);
}

/// D7: what a transaction writes is charged, but for the first of it.
#[test]
fn d7_a_transaction_is_charged_for_what_it_writes() {
    let db = new();
    let used = || db.manager.0.budget.used_for(Use::Transactions);
    let before = used();
    let txn = db.manager.begin(TransactionOptions::new());
    txn.put(TABLE, b"a", &[0; 100]).unwrap();
    assert_eq!(used(), before);
    txn.put(TABLE, b"b", &[0; FREE_BYTES]).unwrap();
    assert_eq!(used(), before + CHARGE_STEP);
    txn.put(TABLE, b"c", &[0; CHARGE_STEP]).unwrap();
    assert_eq!(used(), before + 2 * CHARGE_STEP);
    txn.commit().wait().unwrap();
    assert_eq!(used(), before);
}
