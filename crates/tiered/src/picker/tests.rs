//! The scripts in `testdata`: each gives levels and the expected pick. With `SPILLWAY_REWRITE` set,
//! the expected picks are replaced by the actual ones.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use spillway_base::Csn;
use spillway_base::rng::Rng;

use super::{Chooser, Conflicts, Kind, Pick, Shape};
use crate::coding::Coding;
use crate::extent::ExtentHandle;
use crate::extent_meta::{ExtentId, ExtentMeta, SliceId, SliceMeta};
use crate::level::{Levels, LevelsEdit, Run, Slice};
use crate::manifest::Place;

/// `smallest-largest`, then `*bytes` if these are not those of a full extent, then `!` if half of
/// it is tombstones, or `?` if it has one tombstone, then `~reads` of each of its eight regions, or
/// of some of them: `~9` or `~0,9,9`.
fn slice(id: u64, text: &str) -> Arc<Slice> {
    let (text, reads) = text.split_once('~').unwrap_or((text, "0"));
    let reads: Vec<u64> = reads.split(',').map(|count| count.parse().unwrap()).collect();
    let all = if reads.len() == 1 { vec![reads[0]; 8] } else { reads };
    warm(cold_slice(id, text), &all)
}

/// The slice, in an extent of eighty blocks.
fn warm(slice: Arc<Slice>, reads: &[u64]) -> Arc<Slice> {
    let blocks = 80;
    let extent = ExtentHandle::detached(ExtentMeta { blocks, ..slice.extent.meta.clone() });
    extent.change_live_bytes(slice.meta.bytes, 0);
    for (region, count) in reads.iter().enumerate() {
        extent.inherit(region * 10, *count);
    }
    let meta = Arc::new(SliceMeta { blocks, ..(*slice.meta).clone() });
    Slice::new(meta, extent)
}

fn cold_slice(id: u64, text: &str) -> Arc<Slice> {
    let (text, tombstones) = match (text.strip_suffix('!'), text.strip_suffix('?')) {
        (Some(text), _) => (text, 50),
        (_, Some(text)) => (text, 1),
        _ => (text, 0),
    };
    let (keys, len) = text.split_once('*').unwrap_or((text, "100"));
    let (smallest, largest) = keys.split_once('-').expect("smallest-largest");
    Slice::detached(ExtentId(id), smallest, largest, len.parse().unwrap(), tombstones)
}

fn show(slice: &Slice) -> String {
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    format!("{}-{}", text(&slice.meta.smallest), text(&slice.meta.largest))
}

fn show_all(slices: &[Arc<Slice>]) -> String {
    slices.iter().map(|slice| show(slice)).collect::<Vec<_>>().join(" ")
}

fn parse(script: &str) -> (Shape, Levels, Conflicts, bool) {
    let mut shape = Shape {
        level0_target: 4,
        level0_limit: 20,
        level1_bytes_min: 400,
        level0_bytes: 200,
        level0_share: 0.0,
        level2_times: 0.0,
        input_bytes: 1000,
        deletions_min: 20,
        extent_bytes: 100,
        block_bytes: 0,
        space_max: 1.25,
        above_max: 10.0,
        even_level0: true,
        short_of_space: None,
        hot_share: 0.5,
    };
    let mut bars = Conflicts::default();
    let mut edit = LevelsEdit::default();
    let mut full = false;
    let mut id = 0;
    for line in script.lines() {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let place = match name {
            "full" => {
                full = true;
                continue;
            }
            "short" => {
                shape = shape.short_of_space(rest.parse().unwrap_or(u64::MAX));
                continue;
            }
            "input" => {
                shape.input_bytes = rest.parse().unwrap();
                continue;
            }
            "level1" => {
                shape.level1_bytes_min = rest.parse().unwrap();
                continue;
            }
            "share" => {
                shape.hot_share = rest.parse().unwrap();
                shape.level0_share = rest.parse().unwrap();
                continue;
            }
            "above" => {
                shape.above_max = rest.parse().unwrap();
                continue;
            }
            "times" => {
                shape.level2_times = rest.parse().unwrap();
                continue;
            }
            "target" => {
                shape.level0_target = rest.parse().unwrap();
                continue;
            }
            "bar" => {
                let (smallest, largest) = rest.split_once('-').expect("smallest-largest");
                bars.add(smallest.as_bytes(), largest.as_bytes());
                continue;
            }
            "L1" => Place::Level1,
            "L2" => Place::Level2,
            other => Place::Level0(other.strip_prefix("L0.").expect("a level").parse().unwrap()),
        };
        for text in rest.split_whitespace() {
            id += 1;
            edit.added.push((place, slice(id, text)));
        }
    }
    (shape, Levels::default().apply(&edit).unwrap(), bars, full)
}

fn run(script: &str) -> String {
    let (shape, levels, bars, full) = parse(script);
    let chooser =
        Chooser { shape, levels: &levels, bars: &bars, oldest: Csn(1), memtables_from: Csn::MAX };
    let due = Kind::ORDER.iter().find(|kind| chooser.urgency(**kind).is_some());
    let pick = match due {
        _ if full => shape.pick_full(&levels),
        None => return "nothing to do\n".to_owned(),
        Some(kind) => chooser.pick(*kind),
    };
    let Some(pick) = pick else { return format!("{:?}, but it may not\n", due.unwrap()) };
    let mut out = String::new();
    writeln!(out, "{:?} into {:?}", pick.kind, pick.target).unwrap();
    for source in &pick.sources {
        writeln!(out, "from {}", show_all(source)).unwrap();
    }
    for (id, blocks) in &pick.keeps {
        let slice = pick.inputs().find(|slice| slice.meta.id() == *id).unwrap();
        writeln!(out, "but for blocks {blocks:?} of {}", show(slice)).unwrap();
    }
    out
}

#[test]
fn scripts() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/picker.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let mut rewritten = String::new();
    for case in text.split("\n\n").map(str::trim).filter(|case| !case.is_empty()) {
        let (head, _) = case.split_once("\n----").expect("a line of dashes");
        let (title, script) = head.split_once('\n').expect("a title line");
        assert!(title.starts_with("# "), "{title} is no title");
        write!(rewritten, "{title}\n{script}\n----\n{}\n", run(script)).unwrap();
    }
    let rewritten = format!("{}\n", rewritten.trim_end());
    if std::env::var_os("SPILLWAY_REWRITE").is_some() {
        std::fs::write(path, rewritten).unwrap();
    } else {
        assert_eq!(text, rewritten);
    }
}

/// With random levels, bars and temperatures, every pick satisfies PICKER-1 to PICKER-4, PICKER-6
/// and PICKER-7.
#[test]
fn picks_keep_their_promises() {
    let mut rng = Rng::new(7);
    let mut picks = [0; Kind::ALL.len()];
    let (mut beside_bars, mut unbarred) = (0, 0);
    for _ in 0..1500 {
        let mut edit = LevelsEdit::default();
        let mut id = 0;
        let light = 1 + rng.below(40);
        let mut fill = |place: Place, chance: u64, rng: &mut Rng| {
            let mut at = rng.below(20);
            while at < 200 {
                let len = 1 + rng.below(12);
                let (smallest, largest) = (format!("{at:03}"), format!("{:03}", at + len));
                id += 1;
                let bytes = (20 + rng.below(80)) / if place < Place::Level1 { light } else { 1 };
                let tombstones = if rng.chance(1, 40) { 60 } else { 0 };
                let new = Slice::detached(ExtentId(id), &smallest, &largest, bytes, tombstones);
                let reads: Vec<u64> = (0..8).map(|_| rng.below(20)).collect();
                if rng.chance(chance, 10) {
                    edit.added.push((place, warm(new, &reads)));
                }
                at += len + 1 + rng.below(10);
            }
        };
        for number in 0..rng.below(7) {
            fill(Place::Level0(number), 7, &mut rng);
        }
        fill(Place::Level1, 8, &mut rng);
        fill(Place::Level2, 9, &mut rng);
        let levels = Levels::default().apply(&edit).unwrap();
        let shape = Shape {
            level0_target: 3,
            level0_limit: 8,
            level1_bytes_min: 300,
            level0_bytes: 150,
            level0_share: rng.below(4) as f64 / 8.0,
            level2_times: rng.below(6) as f64,
            input_bytes: 100 + rng.below(1000),
            deletions_min: 20,
            extent_bytes: 100,
            block_bytes: 0,
            space_max: 1.0 + rng.below(100) as f64 / 100.0,
            above_max: rng.below(10) as f64 / 10.0,
            hot_share: 0.5,
            even_level0: true,
            short_of_space: rng.chance(1, 4).then(|| 50 + rng.below(500)),
        };
        let mut bars = Conflicts::default();
        for _ in 0..rng.below(4) {
            let at = rng.below(200);
            bars.add(format!("{at:03}").as_bytes(), format!("{:03}", at + rng.below(9)).as_bytes());
        }
        let chooser = Chooser {
            shape,
            levels: &levels,
            bars: &bars,
            oldest: Csn(1),
            memtables_from: Csn::MAX,
        };
        if chooser.urgency(Kind::Minor).is_some() {
            let free = Chooser { bars: &Conflicts::default(), levels: &levels, ..chooser };
            assert!(free.pick(Kind::Minor).is_some(), "Level0 goes down where nothing is barred");
            unbarred += 1;
        }
        for kind in Kind::ORDER {
            if chooser.urgency(kind).is_some()
                && let Some(pick) = chooser.pick(kind)
            {
                keeps_its_promises(&levels, &bars, &pick);
                let bytes: u64 = pick.inputs().map(|slice| slice.meta.bytes).sum();
                let small = shape.short_of_space.is_none_or(|most| bytes <= most);
                assert!(kind != Kind::Deletion || small, "PICKER-7");
                picks[pick.kind as usize] += 1;
                beside_bars += u64::from(!bars.is_empty());
            }
        }
    }
    let enough = Kind::ORDER.iter().all(|kind| picks[*kind as usize] > 50);
    let all = format!("{picks:?}, {beside_bars} beside bars, {unbarred} due without");
    assert!(enough && beside_bars > 200 && unbarred > 100, "{all}");
}

fn keeps_its_promises(levels: &Levels, bars: &Conflicts, pick: &Pick) {
    let chosen: Vec<SliceId> = pick.inputs().map(|slice| slice.meta.id()).collect();
    let is_chosen = |slice: &Arc<Slice>| chosen.contains(&slice.meta.id());
    let (smallest, largest) = pick.hull();
    assert!(!bars.overlap(smallest, largest), "PICKER-4, {:?}", pick.kind);
    let lower = match pick.target {
        Place::Level0(_) => None,
        Place::Level1 => Some(&levels.level1),
        Place::Level2 => Some(&levels.level2),
    };
    let all = lower.is_none_or(|run| run.between(smallest, largest).iter().all(is_chosen));
    assert!(all, "PICKER-2, {:?}", pick.kind);
    let mut kept = 0;
    for (id, blocks) in &pick.keeps {
        let slice = levels.level1.slices().iter().find(|slice| slice.meta.id() == *id).unwrap();
        let (all, count) = (slice.meta.block_range(), blocks.iter().map(Range::len).sum::<usize>());
        assert!(blocks.windows(2).all(|pair| pair[0].end < pair[1].start), "PICKER-6, {blocks:?}");
        assert!(blocks.iter().all(|kept| kept.start >= all.start && kept.end <= all.end));
        assert!(is_chosen(slice) && count > 0 && count < all.len(), "PICKER-3, {blocks:?}");
        kept += slice.meta.bytes * count as u64 / all.len() as u64;
    }
    assert!(kept <= levels.level1.bytes() / 2, "PICKER-6");
    assert!(pick.inputs().count() > 0, "PICKER-3");
    let level0: Vec<_> = levels.level0.iter().map(|sublevel| sublevel.run.clone()).collect();
    if let Place::Level0(number) = pick.target {
        // The merged sub-levels, with all keys or between bars, are adjacent, and the result has
        // the number of the newest.
        let taken = |run: &Arc<Run>| run.slices().iter().any(is_chosen);
        let from = level0.iter().position(taken).unwrap();
        let last = level0.iter().rposition(taken).unwrap();
        assert_eq!(levels.level0[from].number, number, "PICKER-1");
        let whole = |run: &Arc<Run>| run.between(smallest, largest).iter().all(is_chosen);
        assert!(level0[from..=last].iter().all(whole), "PICKER-1");
        assert!(!bars.is_empty() || level0[from..=last].iter().all(taken), "PICKER-1");
        return;
    }
    for (newer, run) in level0.iter().enumerate() {
        for slice in run.slices().iter().filter(|slice| is_chosen(slice)) {
            let older = level0[newer + 1..].iter().flat_map(|run| run.slices());
            for older in older.filter(|older| older.meta.overlaps(&slice.meta)) {
                assert!(is_chosen(older), "PICKER-1, {:?}", pick.kind);
            }
        }
    }
}

/// One letter for each slice: `p` plain, `h` plain and hot, `c` compressed, each of 100 bytes; `s`
/// compressed, of 5 bytes. Returns the first and the last picked slice.
fn recoded(letters: &str, least: u64, most: u64) -> Option<(usize, usize)> {
    let slices = letters.chars().enumerate().map(|(at, letter)| {
        let bytes = if letter == 's' { 5 } else { 100 };
        let text = format!("k{at:02}a-k{at:02}b*{bytes}");
        let slice = cold_slice(at as u64, &text);
        let coding = if "ph".contains(letter) { Coding::Stored } else { Coding::Zstd };
        let meta = ExtentMeta { coding, ..slice.extent.meta.clone() };
        let extent = ExtentHandle::detached(meta);
        extent.change_live_bytes(bytes, 0);
        let slice = Slice::new(slice.meta.clone(), extent);
        if letter == 'h' { warm(slice, &[1 << 20; 8]) } else { slice }
    });
    let slices: Vec<_> = slices.collect();
    let run = Run::new(slices.clone()).unwrap();
    let pick = super::pick_recoding(&run, Place::Level2, Coding::Zstd, least, most)?;
    let at =
        |picked: &Arc<Slice>| slices.iter().position(|slice| slice.meta.id() == picked.meta.id());
    let picked: Vec<_> = pick.inputs().map(|slice| at(slice).unwrap()).collect();
    assert!(picked.windows(2).all(|two| two[0] + 1 == two[1]), "neighbours");
    Some((picked[0], *picked.last().unwrap()))
}

#[test]
fn neighbours_are_recompressed_with_the_little_between_them_that_is_already() {
    for (letters, picked) in [
        ("ppp", None),
        ("pppp", Some((0, 3))),
        ("cppppc", Some((1, 4))),
        // Too little on each side, but the slice between them is very small.
        ("pppcppp", None),
        ("pppsppp", Some((0, 6))),
        ("spsspsppss", Some((1, 7))),
        ("ssss", None),
        ("ppphppp", None),
        ("ppppsh", Some((0, 3))),
        ("pspppppppp", Some((0, 6))),
    ] {
        assert_eq!(recoded(letters, 400, 600), picked, "{letters}");
    }
}
