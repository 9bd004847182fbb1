//! The scripts in `testdata`: levels in, the pick out. With `SPILLWAY_REWRITE` set,
//! the expected part of each script is rewritten to what came out.

use std::fmt::Write as _;
use std::sync::Arc;

use spillway_base::rng::Rng;

use super::{Kind, Shape};
use crate::extent_meta::{ExtentId, SliceId};
use crate::level::{Levels, LevelsEdit, Slice};
use crate::manifest::Place;

/// `smallest-largest`, then `*bytes` where it is not a full extent's.
fn slice(id: u64, text: &str) -> Arc<Slice> {
    let (keys, len) = text.split_once('*').unwrap_or((text, "100"));
    let (smallest, largest) = keys.split_once('-').expect("smallest-largest");
    Slice::detached(ExtentId(id), smallest, largest, len.parse().unwrap())
}

fn show(slice: &Slice) -> String {
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    format!("{}-{}", text(&slice.meta.smallest), text(&slice.meta.largest))
}

fn show_all(slices: &[Arc<Slice>]) -> String {
    slices.iter().map(|slice| show(slice)).collect::<Vec<_>>().join(" ")
}

fn parse(script: &str) -> (Shape, Levels, bool) {
    let mut shape = Shape {
        level0_target: 4,
        level0_limit: 20,
        level1_bytes_min: 400,
        level0_bytes: 400,
        input_bytes: 1000,
    };
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
            "input" => {
                shape.input_bytes = rest.parse().unwrap();
                continue;
            }
            "level1" => {
                shape.level1_bytes_min = rest.parse().unwrap();
                continue;
            }
            "target" => {
                shape.level0_target = rest.parse().unwrap();
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
    (shape, Levels::default().apply(&edit).unwrap(), full)
}

fn run(script: &str) -> String {
    let (shape, levels, full) = parse(script);
    let pick = if full { shape.pick_full(&levels) } else { shape.pick(&levels) };
    let Some(pick) = pick else { return "nothing to do\n".to_owned() };
    let mut out = String::new();
    writeln!(out, "{:?} into {:?}", pick.kind, pick.target).unwrap();
    for source in &pick.sources {
        writeln!(out, "from {}", show_all(source)).unwrap();
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

/// Random levels; every pick keeps P1, P2 and P3.
#[test]
fn picks_keep_their_promises() {
    let mut rng = Rng::new(7);
    let mut picks = 0;
    for _ in 0..500 {
        let mut edit = LevelsEdit::default();
        let mut id = 0;
        let mut fill = |place: Place, chance: u64, rng: &mut Rng| {
            let mut at = rng.below(20);
            while at < 200 {
                let len = 1 + rng.below(12);
                let (smallest, largest) = (format!("{at:03}"), format!("{:03}", at + len));
                id += 1;
                let bytes = 20 + rng.below(80);
                let new = Slice::detached(ExtentId(id), &smallest, &largest, bytes);
                if rng.chance(chance, 10) {
                    edit.added.push((place, new));
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
            level0_bytes: 300,
            input_bytes: 100 + rng.below(1000),
        };
        let Some(pick) = shape.pick(&levels) else { continue };
        picks += 1;
        let chosen: Vec<SliceId> = pick.inputs().map(|slice| slice.meta.id()).collect();
        let is_chosen = |slice: &Arc<Slice>| chosen.contains(&slice.meta.id());
        let (smallest, largest) = super::hull(pick.inputs()).unwrap();
        let lower = match pick.kind {
            Kind::Minor => &levels.level1,
            Kind::Major | Kind::Full | Kind::Recode => &levels.level2,
        };
        assert!(lower.between(smallest, largest).iter().all(is_chosen), "P2");
        let relieved: Vec<_> = match pick.kind {
            Kind::Minor => levels.level0.iter().map(|sublevel| sublevel.run.clone()).collect(),
            Kind::Major | Kind::Full => vec![levels.level1.clone()],
            Kind::Recode => vec![levels.level2.clone()],
        };
        assert!(relieved.iter().any(|run| run.slices().iter().any(is_chosen)), "P3");
        for (newer, run) in relieved.iter().enumerate() {
            for slice in run.slices().iter().filter(|slice| is_chosen(slice)) {
                let older = relieved[newer + 1..].iter().flat_map(|run| run.slices());
                for older in older.filter(|older| older.meta.overlaps(&slice.meta)) {
                    assert!(is_chosen(older), "P1");
                }
            }
        }
    }
    assert!(picks > 300, "only {picks} of the random levels asked for a compaction");
}
