//! The tables' keys: numbers big-endian, so that keys have the order of their numbers.

/// A key of this many bytes, of its parts.
#[inline]
fn joined<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut key = [0; N];
    let mut at = 0;
    for part in parts {
        key[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    key
}

/// A warehouse.
pub(super) fn warehouse(warehouse: u16) -> [u8; 2] {
    warehouse.to_be_bytes()
}

/// A district of a warehouse. Keys of orders, customers and their entries begin with it.
pub(super) fn district(warehouse: u16, district: u8) -> [u8; 3] {
    joined(&[&warehouse.to_be_bytes(), &[district]])
}

/// A customer of a district.
pub(super) fn customer(warehouse: u16, district: u8, customer: u16) -> [u8; 5] {
    joined(&[&warehouse.to_be_bytes(), &[district], &customer.to_be_bytes()])
}

/// The customers of a district with a last name. Entries of the index begin with it.
pub(super) fn last_name(warehouse: u16, district: u8, last: &[u8; 16]) -> [u8; 19] {
    joined(&[&warehouse.to_be_bytes(), &[district], last])
}

/// A customer's entry in the index by names, in the order that clause 2.5.2.2 requires.
pub(super) fn customer_name(
    at: (u16, u8),
    last: &[u8; 16],
    first: &[u8; 16],
    customer: u16,
) -> [u8; 37] {
    joined(&[&at.0.to_be_bytes(), &[at.1], last, first, &customer.to_be_bytes()])
}

/// A customer's payment of this number.
pub(super) fn history(at: (u16, u8), customer: u16, payment: u32) -> [u8; 9] {
    joined(&[&at.0.to_be_bytes(), &[at.1], &customer.to_be_bytes(), &payment.to_be_bytes()])
}

/// An order of a district, and its entry in the queue of new orders.
pub(super) fn order(warehouse: u16, district: u8, order: u32) -> [u8; 7] {
    joined(&[&warehouse.to_be_bytes(), &[district], &order.to_be_bytes()])
}

/// An order's entry in the index by customers.
pub(super) fn order_customer(at: (u16, u8), customer: u16, order: u32) -> [u8; 9] {
    joined(&[&at.0.to_be_bytes(), &[at.1], &customer.to_be_bytes(), &order.to_be_bytes()])
}

/// A line of an order.
pub(super) fn order_line(order: &[u8; 7], line: u8) -> [u8; 8] {
    joined(&[order, &[line]])
}

/// An item.
pub(super) fn item(item: u32) -> [u8; 4] {
    item.to_be_bytes()
}

/// An item in the stock of a warehouse.
pub(super) fn stock(warehouse: u16, item: u32) -> [u8; 6] {
    joined(&[&warehouse.to_be_bytes(), &item.to_be_bytes()])
}

/// The warehouse and the district with which a key begins.
///
/// # Panics
/// When the key has fewer than three bytes.
pub(super) fn district_of(key: &[u8]) -> (u16, u8) {
    (u16::from_be_bytes([key[0], key[1]]), key[2])
}

/// The customer's number in a key of [`customer`], [`history`] or [`order_customer`].
///
/// # Panics
/// When the key is shorter.
pub(super) fn customer_of(key: &[u8]) -> u16 {
    u16::from_be_bytes([key[3], key[4]])
}

/// The order's number in a key of [`order`] or [`order_line`].
///
/// # Panics
/// When the key is shorter.
pub(super) fn order_of(key: &[u8]) -> u32 {
    u32::from_be_bytes([key[3], key[4], key[5], key[6]])
}

/// The number in the last bytes of a key: a customer's of [`customer_name`].
///
/// # Panics
/// When the key is shorter than a number.
pub(super) fn last_u16(key: &[u8]) -> u16 {
    let (_, number) = key.split_last_chunk().expect("a key has its last number");
    u16::from_be_bytes(*number)
}

/// The number in the last bytes of a key: an order's of [`order_customer`].
///
/// # Panics
/// When the key is shorter than a number.
pub(super) fn last_u32(key: &[u8]) -> u32 {
    let (_, number) = key.split_last_chunk().expect("a key has its last number");
    u32::from_be_bytes(*number)
}
