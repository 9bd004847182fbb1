use super::*;
use crate::{ColumnType, ValueRef, key};

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
    let mut next = random(7);
    (0..300).map(|_| (0..next(6)).map(|_| some[next(some.len())]).collect()).collect()
}

/// Random numbers below a given one.
fn random(mut state: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    }
}

/// Texts that differ in control characters and in runs of spaces, at the ends of groups of eight
/// bytes in keys, too.
fn texts_with_controls() -> Vec<String> {
    let starts = ["", "", "a", "я", "abc", "abcd", "яяяя", "abcdefg", "abcdefgh"];
    let some: Vec<char> = "     \0\u{1}\t\n\u{1F}!aAbäя\u{A0}\u{3000}`".chars().collect();
    let mut next = random(11);
    let text = |_| {
        let start = starts[next(starts.len())].chars();
        let count = next(7);
        start.chain((0..count).map(|_| some[next(some.len())]).collect::<Vec<char>>()).collect()
    };
    (0..160).map(text).collect()
}

/// The weights of a text's characters; `None` if the collation does not compare the texts of
/// [`texts_with_controls`] by one weight for each character.
fn weights_of(collation: Collation, text: &str) -> Option<Vec<Vec<u8>>> {
    let weight = |c: char| match collation.level() {
        Some(level) => {
            let mut key = Vec::new();
            unicode::sort_key(level, c.encode_utf8(&mut [0; 4]).as_bytes(), &mut key);
            key
        }
        None => collation.weight(c).to_be_bytes().to_vec(),
    };
    let one = !matches!(collation.level(), Some(Level::Secondary | Level::Tertiary));
    one.then(|| text.chars().map(weight).filter(|weight| !weight.is_empty()).collect())
}

/// Compares weights one by one. With PAD SPACE, spaces follow each text.
fn order_of_weights(collation: Collation, a: &[Vec<u8>], b: &[Vec<u8>]) -> Ordering {
    let space = weights_of(collation, " ").filter(|_| collation.pads());
    let space = space.as_ref().map(|weights| &weights[0]);
    let pairs = (0..a.len().max(b.len())).map(|at| (a.get(at).or(space), b.get(at).or(space)));
    pairs.map(|(a, b)| a.cmp(&b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// A text's part of a key. It is also read, as far as keys are.
fn part_of(collation: Collation, text: &str) -> Vec<u8> {
    let mut part = Vec::new();
    let column = ColumnType::VarChar(40);
    key::write_part(&ValueRef::Text(text), &column, collation, None, &mut part);
    assert_eq!(key::part_len(&part, &column), Some(part.len()), "{collation:?} {text:?}");
    let mut more = part.clone();
    more.extend_from_slice(&[10; 10]);
    assert_eq!(key::part_len(&more, &column), Some(part.len()), "{collation:?} {text:?}");
    let column = ColumnType::Char(40);
    if key::is_exact(&column, collation, None) {
        // A CHAR has no trailing spaces.
        let text = text.trim_end_matches(' ');
        let mut part = Vec::new();
        key::write_part(&ValueRef::Text(text), &column, collation, None, &mut part);
        let mut room = b" ".to_vec();
        let (read, len) = key::read_part(&part, &column, &mut room).unwrap();
        assert_eq!(len, part.len());
        assert!(matches!(read.value(&room), Some(ValueRef::Text(found)) if found == text));
    }
    part
}

#[test]
fn texts_compare_as_if_spaces_followed_them() {
    let texts = texts_with_controls();
    for collation in Collation::ALL {
        let parts: Vec<_> = texts.iter().map(|text| part_of(collation, text)).collect();
        let weights: Vec<_> = texts.iter().map(|text| weights_of(collation, text)).collect();
        for (x, a) in texts.iter().enumerate() {
            for (y, b) in texts.iter().enumerate() {
                let order = collation.compare(a.as_bytes(), b.as_bytes());
                assert_eq!(order, parts[x].cmp(&parts[y]), "{collation:?} {a:?} {b:?}");
                if let (Some(a_weights), Some(b_weights)) = (&weights[x], &weights[y]) {
                    let wanted = order_of_weights(collation, a_weights, b_weights);
                    assert_eq!(order, wanted, "{collation:?} {a:?} {b:?}");
                }
            }
        }
    }
}

/// The orders are those of MariaDB. Its `utf8mb4_nopad_bin` is `utf8mb4_0900_bin` here.
#[test]
fn control_characters_sort_as_in_mysql() {
    let ordered: [(&[Collation], &[&str]); 3] = [
        (
            &[GeneralCi, Bin],
            &[
                "a\0", "a\u{1}", "a\t\t", "a\t", "a\tb", "a\n", "a\u{1F}", "a \t", "a \n", "a  \0",
                "a", "a  !", "a !", "a b", "a!", "ab", "b\t", "b",
            ],
        ),
        (
            &[UnicodeCi, Unicode520Ci],
            &[
                "a\t\t",
                "a\t",
                "a\tb",
                "a\n",
                "a\u{2028}",
                "a \t",
                "a \n",
                "a   \t",
                "a",
                "a  !",
                "a !",
                "a b",
                "a!",
                "ab",
                "b\t",
                "b",
            ],
        ),
        (
            &[Bin0900],
            &["a", "a\0", "a\t", "a\t\t", "a\tb", "a\n", "a ", "a \t", "a  ", "a !", "a!", "ab"],
        ),
    ];
    for (collations, texts) in ordered {
        for (collation, pair) in
            collations.iter().flat_map(|c| texts.windows(2).map(move |p| (c, p)))
        {
            let order = collation.compare(pair[0].as_bytes(), pair[1].as_bytes());
            assert!(order.is_lt(), "{collation:?} {pair:?}");
        }
    }
    // Characters without weights, and other spaces.
    for ignored in ["\0", "\u{1F}", " \0", "\u{7F}  ", "\u{A0}", "\u{3000} \u{301}"] {
        let text = format!("я{ignored}");
        assert!(UnicodeCi.compare("Я".as_bytes(), text.as_bytes()).is_eq(), "{ignored:?}");
        assert!(GeneralCi.compare("Я".as_bytes(), text.as_bytes()).is_ne(), "{ignored:?}");
    }
}

/// What the comparison by the algorithm with PAD SPACE relies on.
#[test]
fn only_spaces_weigh_as_much_as_a_space() {
    let mut below = Vec::new();
    for c in basic_plane().chain(['🍣', '\u{20000}', '\u{10FFFF}']) {
        let (mut key, mut bytes) = (Vec::new(), [0; 4]);
        let text = c.encode_utf8(&mut bytes).as_bytes();
        unicode::sort_key(Level::Primary, text, &mut key);
        match key.first() {
            None => {}
            Some(first) if *first < unicode::SPACE => below.push(c),
            Some(&unicode::SPACE) => {
                assert_eq!((key.len(), unicode::spaces_max(text)), (1, 1), "{c:?}");
                assert!(c == ' ' || !matches!(c, ' '..='~'), "{c:?}");
            }
            Some(_) => {}
        }
        assert!(!key.is_empty() || !matches!(c, ' '..='~'), "{c:?}");
    }
    let expected = "\t\n\u{B}\u{C}\r\u{85}\u{2028}\u{2029}\u{FFFE}";
    assert_eq!(below.iter().collect::<String>(), expected);
}

#[test]
fn keys_compare_as_texts_do() {
    let mut texts = texts();
    texts.extend(texts_with_controls().into_iter().take(30));
    for collation in Collation::ALL {
        let equal_key = |text: &String| {
            let mut key = Vec::new();
            collation.equal_key(text.as_bytes(), &mut key);
            key
        };
        let parts: Vec<_> = texts.iter().map(|text| part_of(collation, text)).collect();
        let equal: Vec<_> = texts.iter().map(equal_key).collect();
        for (x, a) in texts.iter().enumerate() {
            for (y, b) in texts.iter().enumerate() {
                let order = collation.compare(a.as_bytes(), b.as_bytes());
                assert_eq!(order, parts[x].cmp(&parts[y]), "{collation:?} {a:?} {b:?}");
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
