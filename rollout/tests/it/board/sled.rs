//! The board of one machine.

use std::time::Instant;

use zagent_rollout::board::{Board, SledBoard};

use super::conforms::{conforms, write};

#[test]
fn a_sled_board_conforms() {
    let dir = tempfile::tempdir().unwrap();
    conforms(&|| Box::new(SledBoard::new(dir.path().join("board"))));
}

#[test]
fn a_store_that_does_not_open_is_replaced_and_its_tokens_are_invalid() {
    let dir = tempfile::tempdir().unwrap();
    let mut board = SledBoard::new(dir.path().join("board"));
    let before = board.put("node/agent/a", write(b"one", None)).unwrap();
    let store = dir.path().join("board/store");
    for entry in std::fs::read_dir(&store).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            std::fs::write(entry.path(), "what a crash left").unwrap();
        }
    }
    assert_eq!(board.get("node/agent/a").unwrap(), None);
    let after = board.put("node/agent/a", write(b"two", None)).unwrap();
    assert_ne!(before, after);
    assert!(board.put("node/agent/a", write(b"three", Some(&before))).is_err());
    assert!(
        dir.path().join("board/store.damaged").exists(),
        "the damaged store is kept for an investigation"
    );
}

#[test]
#[ignore = "a measurement: how long an act takes with a store of 1000 keys"]
fn how_long_it_takes() {
    let dir = tempfile::tempdir().unwrap();
    let mut board = SledBoard::new(dir.path().join("board"));
    let value = vec![b'x'; 1000];
    let begun = Instant::now();
    for n in 0..1000 {
        board.put(&format!("node/agent/n{n}"), write(&value, None)).unwrap();
    }
    let put = begun.elapsed() / 1000;
    let begun = Instant::now();
    for n in 0..100 {
        board.get(&format!("node/agent/n{n}")).unwrap().unwrap();
    }
    let get = begun.elapsed() / 100;
    let begun = Instant::now();
    assert_eq!(board.list("node/").unwrap().len(), 1000);
    println!("put {put:?}, get {get:?}, list of 1000 {:?}", begun.elapsed());
}
