//! A process that is killed with operations in flight.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::*;

const FOLDER: &str = "SPILLWAY_TEST_KILLED_FOLDER";
const THROUGH: &str = "SPILLWAY_TEST_KILLED_THROUGH";
const PIECE: usize = 1 << 20;
const PIECES: u64 = 16;

/// Locks a folder and overwrites a file in it, until it is killed.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let _lock = RealDisk.lock(&dir).unwrap();
    let file = RealDisk.open(&dir.join("f"), OpenMode::Write).unwrap();
    let through = std::env::var_os(THROUGH).is_some();
    let cache = if through { Cache::Through } else { Cache::Bypass };
    let settings = QueueSettings { depth: PIECES as usize, cache };
    let mut queue = RealDisk.queue(settings).unwrap();
    let mut value = 0_u8;
    for piece in 0..PIECES {
        queue.write(piece, &file, piece * PIECE as u64, pages(PIECE / ALIGN, value));
    }
    println!("ready");
    while let Some(mut done) = queue.wait() {
        done.outcome.unwrap();
        value = value.wrapping_add(1);
        done.buffer.fill(value);
        queue.write(done.tag, &file, done.tag * PIECE as u64, done.buffer);
    }
}

#[test]
fn io_queue_8_the_folder_of_a_killed_process_is_free_as_soon_as_its_operations_are_done() {
    for round in 0..8 {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        RealDisk.create_dir_all(&own).unwrap();
        let file = RealDisk.open(&own.join("f"), OpenMode::Create).unwrap();
        file.write_at(0, &vec![0; PIECES as usize * PIECE]).unwrap();
        file.sync().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "queue::tests::kill::child", "--nocapture"]);
        child.env(FOLDER, &own).stdout(Stdio::piped());
        if round % 2 == 0 {
            child.env(THROUGH, "");
        }
        let mut child = child.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("ready")));
        child.kill().unwrap();
        child.wait().unwrap();
        let t = spillway_base::clock::now();
        let _lock = RealDisk.lock(&own).unwrap();
        println!("{:?}", spillway_base::clock::now() - t);
        let read = || {
            let mut bytes = vec![0; PIECES as usize * PIECE];
            file.read_at(0, &mut bytes).unwrap();
            bytes
        };
        let first = read();
        assert!(first == read(), "a write of the killed process came later");
    }
}
