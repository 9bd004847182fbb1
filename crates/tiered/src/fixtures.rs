//! Stored formats, byte by byte, as they were when their version was given: `testdata/formats`.
//!
//! A test that fails here has found that what is written now is not what that version is. Who means to change a format
//! gives it another version, says so where it is described, sees to folders of the old one, and rewrites the file with `SPILLWAY_REWRITE`.

use std::fmt::Write;

fn path_of(name: &str) -> String {
    format!("{}/testdata/formats/{name}.hex", env!("CARGO_MANIFEST_DIR"))
}

/// The bytes of a file of `testdata/formats`, which `make` made in its time.
pub(crate) fn kept(name: &str, make: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    if std::env::var_os("SPILLWAY_REWRITE").is_some() {
        let mut text = String::new();
        for line in make().chunks(32) {
            line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
            text.push('\n');
        }
        std::fs::write(path_of(name), text).unwrap();
    }
    old(name)
}

/// The bytes of a file of `testdata/formats` that nobody writes any more.
pub(crate) fn old(name: &str) -> Vec<u8> {
    let path = path_of(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// What is written now is what that version is. Answers the bytes.
pub(crate) fn same(name: &str, now: Vec<u8>) -> Vec<u8> {
    let kept = kept(name, || now.clone());
    let differs = kept.iter().zip(&now).position(|(kept, now)| kept != now);
    let differs = differs.or((kept.len() != now.len()).then(|| kept.len().min(now.len())));
    if let Some(at) = differs {
        panic!(
            "{name} is written otherwise than its version says, from byte {at} on ({} bytes, and there were {}): bump the \
             version, see to folders of the old one, and run this with SPILLWAY_REWRITE=1",
            now.len(),
            kept.len()
        );
    }
    kept
}
