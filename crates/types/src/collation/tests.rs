use super::*;

/// FNV-1a.
fn checksum(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xCBF2_9CE4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

fn basic_plane() -> impl Iterator<Item = char> {
    (1..=0xFFFF).filter_map(char::from_u32)
}

#[test]
fn general_weights_are_those_of_mysql() {
    let equal =
        [("ёлка", "елка"), ("Ǎn", "an"), ("ἀρχή", "αρχη"), ("Ȍ", "o"), ("ß", "s"), ("ﬀ", "ﬀ")];
    for (a, b) in equal {
        assert!(GeneralCi.compare(a.as_bytes(), b.as_bytes()).is_eq(), "{a} {b}");
        assert!(GeneralCi.like(a, b, None), "{a} {b}");
    }
    for (a, b) in [
        ("й", "и"),
        ("ა", "Ა"),
        ("が", "か"),
        ("ⱡ", "Ⱡ"),
        ("ß", "ss"),
        ("å", "b"),
        ("\u{F900}", "\u{8C48}"),
    ] {
        assert!(GeneralCi.compare(a.as_bytes(), b.as_bytes()).is_ne(), "{a} {b}");
    }
    assert!(GeneralCi.compare("🍣".as_bytes(), "🍺".as_bytes()).is_eq(), "as in MySQL");
    // The sum of the results of `WEIGHT_STRING(c COLLATE utf8mb4_general_ci)` for each character of
    // the basic plane.
    let weights = basic_plane().flat_map(|c| general::weight(c).to_be_bytes());
    assert_eq!(checksum(weights), GENERAL);
    for byte in 0..128u8 {
        assert_eq!(general::weight(byte.into()), byte.to_ascii_uppercase().into());
    }
}

#[test]
fn the_algorithm_compares_as_mysql_does() {
    use Ordering::{Equal, Greater, Less};
    // The columns: the pair, and how it compares by letters, with accents, and with case.
    let pairs = [
        ("a", "A", [Equal, Equal, Less]),
        ("a", "á", [Equal, Less, Less]),
        ("á", "a\u{301}", [Equal, Equal, Equal]),
        ("ß", "ss", [Equal, Greater, Greater]),
        ("æ", "ae", [Equal, Greater, Greater]),
        ("ﬀ", "ff", [Equal, Equal, Greater]),
        ("ё", "е", [Equal, Greater, Greater]),
        ("й", "и", [Greater, Greater, Greater]),
        ("ἀρχή", "αρχη", [Equal, Greater, Greater]),
        ("か", "カ", [Equal, Equal, Less]),
        ("が", "か", [Equal, Greater, Greater]),
        ("가", "가", [Equal, Equal, Equal]),
        ("🍣", "🍺", [Less, Less, Less]),
        ("z", "ä", [Greater, Greater, Greater]),
        ("10", "9", [Less, Less, Less]),
        ("a b", "ab", [Less, Less, Less]),
        ("a-b", "a b", [Greater, Greater, Greater]),
        ("", "\u{0}", [Equal, Equal, Equal]),
    ];
    for (a, b, orders) in pairs {
        let levels = [Unicode0900AiCi, Unicode0900AsCi, Unicode0900AsCs];
        for (collation, order) in levels.into_iter().zip(orders) {
            assert_eq!(
                collation.compare(a.as_bytes(), b.as_bytes()),
                order,
                "{collation:?} {a} {b}"
            );
        }
        if !a.contains('🍣') {
            assert_eq!(UnicodeCi.compare(a.as_bytes(), b.as_bytes()), orders[0], "{a} {b}");
        }
    }
    assert!(UnicodeCi.compare("🍣".as_bytes(), "🍺".as_bytes()).is_eq(), "as in MySQL");
    assert!(Unicode520Ci.compare("🍣".as_bytes(), "🍺".as_bytes()).is_ne());
    for collation in Collation::ALL {
        assert_eq!(collation.compare(b"ok", b"ok ").is_eq(), collation.pads(), "{collation:?}");
        assert_eq!(collation.compare(b"ok", b"OK").is_eq(), collation.ignores_case());
        assert_eq!(
            collation.like("Straße", "str%SE", None),
            !collation.is_bytewise()
                && collation != Unicode0900AsCs
                && collation.like("ß", "s", None)
        );
        assert_eq!(Collation::from_name(collation.name()), Some(collation));
    }
    assert!(Unicode0900AiCi.like("Ünïcode 🍣", "unic_de _", None));
    assert!(!Unicode0900AiCi.like("ß", "ss", None), "LIKE compares characters one by one");
    assert!(!Unicode0900AiCi.like("🍣", "🍺", None) && UnicodeCi.like("🍣", "🍺", None));
}

/// LIKE by its definition, with `|` as the escape.
fn is_like(text: &[char], pattern: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|at| is_like(&text[at..], rest)),
        ['_', rest @ ..] => !text.is_empty() && is_like(&text[1..], rest),
        ['|', c, rest @ ..] | [c, rest @ ..] => {
            text.first() == Some(c) && is_like(&text[1..], rest)
        }
    }
}

#[test]
fn like_matches_by_its_definition() {
    let of_length = |letters: &'static str, length: u32| {
        let count = letters.chars().count();
        (0..count.pow(length)).map(move |number| {
            let digit = |at| number / count.pow(at) % count;
            (0..length).filter_map(|at| letters.chars().nth(digit(at))).collect::<Vec<char>>()
        })
    };
    for pattern in (0..=5).flat_map(|length| of_length("aé%_|", length)) {
        let written: String = pattern.iter().collect();
        for text in (0..=4).flat_map(|length| of_length("aé%", length)) {
            let found = Collation::Bin.like(&text.iter().collect::<String>(), &written, Some('|'));
            assert_eq!(found, is_like(&text, &pattern), "{text:?} {written}");
        }
    }
}

/// Texts of a few characters of many scripts, some with combining marks.
fn texts() -> Vec<String> {
    let some = "aAáb zZßæ\u{301}\u{308}еёйΑἀσςかカがー가ᄀ漢丅🍣🍺-_%09\u{0}\u{FFFD}ﷺญเ\u{1F600}";
    let some: Vec<char> = some.chars().collect();
    let mut state = 7u64;
    let mut next = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    (0..300).map(|_| (0..next(6)).map(|_| some[next(some.len())]).collect()).collect()
}

#[test]
fn keys_compare_as_texts_do() {
    let texts = texts();
    for collation in Collation::ALL {
        let keys = |make: fn(Collation, &[u8], &mut Vec<u8>)| -> Vec<Vec<u8>> {
            let key = |text: &String| {
                let mut key = Vec::new();
                make(collation, text.as_bytes(), &mut key);
                key
            };
            texts.iter().map(key).collect()
        };
        let (sort, equal) = (keys(Collation::sort_key), keys(Collation::equal_key));
        for (x, a) in texts.iter().enumerate() {
            for (y, b) in texts.iter().enumerate() {
                let order = collation.compare(a.as_bytes(), b.as_bytes());
                assert_eq!(order, sort[x].cmp(&sort[y]), "{collation:?} {a:?} {b:?}");
                assert_eq!(order.is_eq(), equal[x] == equal[y], "{collation:?} {a:?} {b:?}");
                let heads = collation.head(a.as_bytes()).cmp(&collation.head(b.as_bytes()));
                assert!(heads.is_eq() || heads == order, "{collation:?} {a:?} {b:?}");
                for finer in Collation::ALL {
                    if collation.is_coarser_than(finer)
                        && finer.compare(a.as_bytes(), b.as_bytes()).is_eq()
                    {
                        assert!(order.is_eq(), "{collation:?} {finer:?} {a:?} {b:?}");
                    }
                }
            }
        }
    }
}

/// Tables store these keys. If an update of `icu_collator` changes them, then opening such a table
/// must first rebuild its indexes over text of these collations; only then may the sum here change.
#[test]
fn stored_keys_stay_what_they_are() {
    let sums = STORED.map(|(collation, _)| {
        let keys = basic_plane().chain(['🍣', '\u{20000}']).flat_map(|c| {
            let mut key = Vec::new();
            collation.sort_key(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut key);
            key.push(0);
            key
        });
        (collation, checksum(keys))
    });
    assert_eq!(sums, STORED);
}

const GENERAL: u64 = 0xEBE1_177F_2B7B_A12A;
const STORED: [(Collation, u64); 3] = [
    (Unicode0900AiCi, 3_634_685_817_329_077_906),
    (Unicode0900AsCi, 8_154_599_722_519_656_546),
    (Unicode0900AsCs, 8_493_370_304_732_283_005),
];
