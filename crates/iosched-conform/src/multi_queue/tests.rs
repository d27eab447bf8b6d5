//! What runs of the simulator taught about what a recording means.

use std::fmt::Write;

use super::*;
use iosched_sim::block_layer::Attachment::{self, Budget, TagOnly};
use iosched_sim::scheduler::{SchedulerSpec, build_followed};

/// Follows a recording of a device that takes so many commands.
fn followed(scheduler: &str, queue_depth: usize, attachment: Attachment, text: &str) -> Report {
    let mut recording = Recording::default();
    text.lines().for_each(|line| recording.line(line).unwrap());
    let kernel = Kernel {
        hz: 250,
        ..Kernel::default()
    };
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let scheduler = build_followed(&spec, &kernel, &Vec::new()).unwrap();
    let device = Device {
        queue_depth,
        attachment,
    };
    follow(Until::End, &recording, scheduler, &kernel, device).0
}

/// All decisions must agree. In how many of them there was a choice.
fn agrees(
    scheduler: &str,
    queue_depth: usize,
    attachment: Attachment,
    text: &str,
    decisions: u64,
) -> u64 {
    let report = followed(scheduler, queue_depth, attachment, text);
    let expected = Report {
        decisions,
        agreed: decisions,
        with_choice: report.with_choice,
        agreed_with_choice: report.with_choice,
        ..Report::default()
    };
    assert_eq!(report, expected);
    report.with_choice
}

#[test]
fn each_plug_that_is_let_go_is_followed_by_an_ask_though_nothing_else_stands_between_them() {
    // The runs at 20 dispatch nothing, as a real-time request is in the driver; but each counts as a choice
    // of reads while a write waits, and after two of them it is the write's turn.
    let text = "\
        # worker pid=1 ioprio=1/4\n# worker pid=2 ioprio=3/4\n\
        0 G R 800 8 1 a a\n0 I R 800 8 1 a a\n0 X R 800 8 1 a a\n0 D R 800 8 1 a a\n\
        10 G W 100 8 2 b b\n10 I W 100 8 2 b b\n\
        20 G R 500 8 2 b b\n20 G R 600 8 2 b b\n\
        20 U N 0 0 2 b b\n20 I R 500 8 2 b b\n\
        20 P N 0 0 2 b b\n20 U N 0 0 2 b b\n20 I R 600 8 2 b b\n\
        1000 C R 800 8 0 a a\n\
        8000 X W 100 8 0 b b\n8000 X R 500 8 0 b b\n8000 X R 600 8 0 b b\n\
        8000 D W 100 8 0 b b\n8000 D R 500 8 0 b b\n8000 D R 600 8 0 b b\n";
    // The first of all is alone, and so is the last.
    let with_choice = agrees("mq-deadline:kernel=6.1", 4, TagOnly, text, 4);
    assert_eq!(with_choice, 2);
}

#[test]
fn a_request_that_a_bio_touches_and_does_not_join_takes_no_more() {
    // The bio of 30 finds no room in the first of the two; so the one of 50 joins the second, though
    // the first was the last to be merged or inserted.
    let text = "\
        0 G R 800 8 1 a a\n0 I R 800 8 1 a a\n0 X R 800 8 1 a a\n0 D R 800 8 1 a a\n\
        20 G R 100 8 2 b b\n20 I R 100 8 2 b b\n\
        30 Q R 108 8 3 c c\n\
        40 G R 100 8 4 d d\n40 I R 100 8 4 d d\n\
        50 Q R 108 8 5 e e\n50 M R 108 8 5 e e\n\
        60 G R 108 8 3 c c\n60 I R 108 8 3 c c\n\
        1000 C R 800 8 0 a a\n1000 X R 100 8 0 b b\n1000 D R 100 8 0 b b\n\
        2000 C R 100 8 0 b b\n2000 X R 100 16 0 d d\n2000 D R 100 16 0 d d\n\
        3000 C R 100 16 0 d d\n3000 X R 108 8 0 c c\n3000 D R 108 8 0 c c\n";
    agrees("mq-deadline", 1, Budget, text, 4);
}

#[test]
fn a_bio_joins_a_request_of_its_own_priority() {
    let text = "\
        # worker pid=1 ioprio=1/4\n# worker pid=2 ioprio=1/4\n# worker pid=3 ioprio=3/4\n\
        0 G R 800 8 1 a a\n0 I R 800 8 1 a a\n0 X R 800 8 1 a a\n0 D R 800 8 1 a a\n\
        10 G R 100 8 3 c c\n10 I R 100 8 3 c c\n\
        20 G R 100 8 2 b b\n20 I R 100 8 2 b b\n\
        30 Q R 108 8 3 c c\n30 M R 108 8 3 c c\n\
        40 Q R 116 8 2 b b\n40 G R 116 8 2 b b\n40 I R 116 8 2 b b\n\
        1000 C R 800 8 0 a a\n1000 X R 100 8 0 b b\n1000 D R 100 8 0 b b\n\
        2000 C R 100 8 0 b b\n2000 X R 116 8 0 b b\n2000 D R 116 8 0 b b\n\
        3000 C R 116 8 0 b b\n3000 X R 100 16 0 c c\n3000 D R 100 16 0 c c\n";
    agrees("mq-deadline", 1, Budget, text, 4);
}

#[test]
fn of_two_requests_of_the_same_sectors_the_one_that_was_to_be_issued_directly_goes_first() {
    let text = "\
        0 Q R 800 8 1 a a\n0 G R 800 8 1 a a\n0 D R 800 8 1 a a\n\
        10 Q R 100 8 1 a a\n10 G R 100 8 1 a a\n\
        20 Q R 300 8 2 b b\n20 G R 300 8 2 b b\n20 I R 300 8 2 b b\n\
        30 Q R 100 8 3 c c\n30 G R 100 8 3 c c\n30 I R 100 8 3 c c\n\
        1000 C R 800 8 0 a a\n1000 D R 100 8 0 a a\n\
        2000 C R 100 8 0 a a\n2000 D R 300 8 0 b b\n\
        3000 C R 300 8 0 b b\n3000 D R 100 8 0 c c\n";
    agrees("none", 1, Budget, text, 4);
}

#[test]
fn a_read_and_a_write_of_the_same_sectors_are_told_apart_by_what_is_issued() {
    // An X names sectors, no direction. Both wait from 20 on, the write first in time.
    let text = "\
        0 G R 800 8 1 a a\n0 I R 800 8 1 a a\n0 X - 800 8 1 a a\n0 D R 800 8 1 a a\n\
        10 G W 100 8 2 b b\n10 I W 100 8 2 b b\n\
        20 G R 100 8 3 c c\n20 I R 100 8 3 c c\n\
        1000 C R 800 8 0 a a\n1000 X - 100 8 0 c c\n1000 D R 100 8 0 c c\n\
        2000 C R 100 8 0 c c\n2000 X - 100 8 0 b b\n2000 D W 100 8 0 b b\n";
    agrees("mq-deadline", 1, Budget, text, 3);
}

/// A recording without X, of a device that takes one command at a time.
struct WithoutDecisions(String);

impl WithoutDecisions {
    /// The request at 50 is with the device.
    fn begun() -> WithoutDecisions {
        let mut recording = WithoutDecisions(String::new());
        recording.inserted(0, 50, 0);
        recording.says(0, "D", 50, 0);
        recording
    }

    fn says(&mut self, time: u64, action: &str, start: u64, cpu: u16) {
        writeln!(self.0, "{time} {action} R {start} 8 1 a a - {cpu}").unwrap();
    }

    fn inserted(&mut self, time: u64, start: u64, cpu: u16) {
        self.says(time, "G", start, cpu);
        self.says(time, "I", start, cpu);
    }

    /// One after the other, on this processor.
    fn issued(&mut self, order: &[u64], cpu: u16) {
        let before = [&[50], order].concat();
        for (turn, (&before, &start)) in (1..).zip(before.iter().zip(order)) {
            self.says(turn * 1000, "C", before, cpu);
            self.says(turn * 1000 + 1, "D", start, cpu);
        }
    }

    /// Decisions, those that agreed, those issued out of order.
    fn followed(&self, scheduler: &str) -> (u64, u64, u64) {
        let report = followed(scheduler, 1, TagOnly, &self.0);
        (report.decisions, report.agreed, report.issued_out_of_order)
    }
}

#[test]
fn what_two_processors_took_may_be_issued_the_other_way_round_and_is_counted() {
    let issued = |order: &[u64], cpu| {
        let mut recording = WithoutDecisions::begun();
        for start in [100, 200, 300, 400] {
            recording.inserted(10, start, 0);
        }
        recording.issued(order, cpu);
        recording.followed("mq-deadline")
    };
    assert_eq!(issued(&[100, 200, 300, 400], 1), (5, 5, 0));
    assert_eq!(issued(&[100, 300, 200, 400], 1), (5, 5, 1));
    // One processor issues in the order in which it takes; and after 300 comes what lies behind it.
    assert_eq!(issued(&[100, 300, 200, 400], 0), (5, 3, 0));
    // The other one holds one request, not two.
    assert_eq!(issued(&[100, 400, 200, 300], 1), (5, 4, 0));
}

#[test]
fn kyber_is_followed_on_after_a_flush_that_came_before_an_insert() {
    // The request of processor 0 that is inserted at 20 is not in the flush of 15, which left no trace;
    // ours flushes when it is asked at 1001, and then knows better.
    let mut recording = WithoutDecisions::begun();
    for (time, start, cpu) in [
        (10, 100, 0),
        (11, 200, 1),
        (12, 300, 1),
        (20, 150, 0),
        (21, 400, 1),
    ] {
        recording.inserted(time, start, cpu);
    }
    recording.issued(&[100, 200, 300, 150, 400], 0);
    assert_eq!(recording.followed("kyber"), (6, 5, 0));
}

#[test]
fn a_completion_between_a_bio_and_its_merge_is_not_what_the_process_does_next() {
    // The interrupt came upon process 2 while it was merging: the two bios still join its request.
    let text = "\
        0 G R 800 8 1 a a\n0 I R 800 8 1 a a\n0 X - 800 8 1 a a\n0 D R 800 8 1 a a\n\
        10 G R 300 8 2 b b\n10 I R 300 8 2 b b\n\
        20 Q R 292 8 2 b b\n21 C R 800 8 2 b a\n22 F R 292 8 2 b b\n\
        30 Q R 284 8 2 b b\n31 F R 284 8 2 b b\n\
        90 X - 284 24 9 k b\n90 D R 284 24 9 k b\n1000 C R 284 24 0 a a\n";
    agrees("mq-deadline", 1, Budget, text, 2);
}

#[test]
fn a_completion_in_the_midst_of_a_choice_did_not_count_for_it() {
    // 130 writes were dispatched and two of them have completed: kyber's 128 tokens for writes are in use,
    // so of a write and a read that wait the read comes, in the midst of a batch of writes. With the token
    // that the completion sets free the write would.
    let followed_with = |completed: &[u64]| {
        let mut text = String::new();
        for (time, write) in (0..131).enumerate() {
            let start = 1000 + 8 * write;
            writeln!(text, "{time} G W {start} 8 {write} w w").unwrap();
            writeln!(text, "{time} I W {start} 8 {write} w w").unwrap();
            if write < 130 {
                writeln!(text, "{time} X - {start} 8 {write} w w").unwrap();
                writeln!(text, "{time} D W {start} 8 {write} w w").unwrap();
            }
            if let 10 | 20 = write {
                writeln!(text, "{time} C W {start} 8 0 w w").unwrap();
            }
        }
        let mut rest = vec![(9000, "G R 0 8 500 r r".to_owned())];
        rest.push((9000, "I R 0 8 500 r r".to_owned()));
        rest.extend((0..).zip(completed).map(|(write, &time)| {
            let start = 1000 + 8 * write;
            (time, format!("C W {start} 8 500 r w"))
        }));
        rest.sort_by_key(|&(time, _)| time);
        for (time, event) in rest {
            writeln!(text, "{time} {event}").unwrap();
        }
        text += "9020 X - 0 8 9 k r\n9020 X - 2040 8 9 k w\n9021 D R 0 8 9 k r\n";
        let report = followed("kyber", 200, Budget, &text);
        (report.decisions, report.agreed, report.interrupted)
    };
    assert_eq!(followed_with(&[9010]), (132, 132, 1));
    assert_eq!(followed_with(&[8970, 8990, 9010]), (132, 131, 0));
    assert_eq!(followed_with(&[9002, 9006, 9010]), (132, 132, 1));
    assert_eq!(followed_with(&[8000]), (132, 131, 0));
}

#[test]
fn a_tick_that_began_just_before_may_have_begun_after_the_clock_was_read() {
    // The write of 10 expires with the tick of 52 000; the one of 20 goes on from the write before.
    let followed_at = |chosen: u64| {
        let text = format!(
            "\
            0 G W 700 8 1 a a\n0 I W 700 8 1 a a\n0 X - 700 8 1 a a\n0 D W 700 8 1 a a\n\
            5 G W 800 8 1 a a\n5 I W 800 8 1 a a\n\
            10 G W 100 8 2 b b\n10 I W 100 8 2 b b\n\
            20 G W 900 8 2 b b\n20 I W 900 8 2 b b\n\
            30 C W 700 8 0 a a\n30 X - 800 8 1 a a\n30 D W 800 8 1 a a\n\
            {chosen} C W 800 8 0 a a\n{chosen} X - 900 8 1 b b\n{chosen} D W 900 8 1 b b\n"
        );
        let scheduler = "mq-deadline:kernel=6.1,write_expire=50,fifo_batch=1";
        let report = followed(scheduler, 1, Budget, &text);
        (report.decisions, report.agreed, report.interrupted)
    };
    assert_eq!(followed_at(51_990), (3, 3, 0));
    assert_eq!(followed_at(52_005), (3, 3, 1));
    assert_eq!(followed_at(52_100), (3, 2, 0));
}

#[test]
fn in_a_recording_that_lost_ends_the_older_half_of_what_is_under_way_is_given_up() {
    // 0 to 4 stand in a plug, in the scheduler, chosen, in the driver, and in the driver past the scheduler.
    let text = "\
        0 G R 0 8 1 a a\n\
        1 G R 100 8 2 a a\n1 I R 100 8 2 a a\n\
        2 G R 200 8 2 a a\n2 I R 200 8 2 a a\n2 X R 200 8 2 a a\n\
        3 G R 300 8 2 a a\n3 I R 300 8 2 a a\n3 X R 300 8 2 a a\n3 D R 300 8 2 a a\n\
        4 G R 400 8 2 a a\n4 D R 400 8 2 a a\n\
        5 G R 500 8 2 a a\n6 G R 600 8 2 a a\n7 G R 700 8 2 a a\n8 G R 800 8 2 a a\n9 G R 900 8 2 a a\n\
        10 G R 1000 8 2 a a\n10 I R 1000 8 2 a a\n\
        11 I R 900 8 2 a a\n\
        2000 X R 1000 8 2 a a\n2000 D R 1000 8 2 a a\n2001 X R 900 8 2 a a\n2001 D R 900 8 2 a a\n\
        3000 C R 1000 8 2 a a\n3001 C R 900 8 2 a a\n3002 C R 300 8 2 a a\n3003 C R 400 8 2 a a\n";
    let mut recording = Recording::default();
    text.lines().for_each(|line| recording.line(line).unwrap());
    for name in ["none", "mq-deadline:kernel=6.1", "kyber", "bfq"] {
        let kernel = Kernel::default();
        let spec = SchedulerSpec::parse(name).unwrap();
        let scheduler = build_followed(&spec, &kernel, &Vec::new()).unwrap();
        let device = Device {
            queue_depth: 2,
            attachment: TagOnly,
        };
        let (report, _) = follow_within(10, Until::End, &recording, scheduler, (&kernel, device));
        // Five are given up when the eleventh comes; of those two complete afterwards.
        assert_eq!(report.unexplained, 5 + 2, "{name}: {report:?}");
    }
}
