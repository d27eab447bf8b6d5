//! What becomes of an option in a load: the table of fio's options, and what is asked of values.

use iosched_facts::fio::{ENGINES, FioOption, Handling};

use super::room::{SIZE_WANTED, SIZES, parse_size};
use super::{Assignment, Job, parse_time};

/// What becomes of an option; why the file is refused for it.
///
/// An option that the table lacks is kept: fio says whether it knows it, and reaches nothing but the target by it.
pub(super) fn check(assignment: &Assignment) -> Result<Handling, String> {
    let Assignment { key, value, .. } = assignment;
    let option = FioOption::find(key);
    match option.map_or(Handling::Kept, |option| option.handling) {
        Handling::Refused(cause) => return Err(format!("option {key} is refused: {cause}")),
        Handling::Replaced(by) => return Ok(Handling::Replaced(by)),
        Handling::Kept => {}
    }
    let given = value.as_deref().unwrap_or("1");
    let bad = |cause: String| Err(format!("{key}={given} is not supported in a load: {cause}"));
    if given.contains(['$', '`']) {
        return bad("a variable has no value here, and no command is run".into());
    }
    let name = option.map_or(key.as_str(), |option| option.name);
    match name {
        "ioengine" if !ENGINES.contains(&given) => bad(format!(
            "engines that do block I/O on the target are {}",
            ENGINES.join(", ")
        )),
        "zonemode" if given == "zbd" => {
            bad("zones of a zoned disk are not written in order here".into())
        }
        "rw" if !DIRECTIONS.contains(&given.split(':').next().unwrap_or("")) => {
            bad(format!("known are {}", DIRECTIONS.join(", ")))
        }
        "numjobs"
            if given
                .parse::<u64>()
                .ok()
                .is_none_or(|n| !(1..=4096).contains(&n)) =>
        {
            bad("a number from 1 to 4096 is wanted".into())
        }
        "runtime" | "ramp_time" | "startdelay" if parse_time(given).is_none() => {
            bad("a time such as 10, 10s, 500ms or 1h30m is wanted".into())
        }
        "nrfiles" if given.parse().is_ok_and(|n: u32| n == 0) => {
            bad("a job without files does nothing: a number from 1 on is wanted".into())
        }
        "nrfiles" if given.parse::<u32>().is_err() => bad("a number of files is wanted".into()),
        size if SIZES.contains(&size) && parse_size(given).is_none() => bad(SIZE_WANTED.into()),
        _ => Ok(Handling::Kept),
    }
}

/// Why the file is refused for what the options of a job say together, with the line.
pub(super) fn check_job(job: &Job) -> Option<(usize, String)> {
    let verifies = job.given("verify")?;
    let is_verified = !matches!(verifies.value.as_deref(), Some("0" | "null"));
    (is_verified && !job.writes()).then(|| {
        let cause = "option verify is refused: this job writes nothing, so it would verify data that another run wrote";
        (verifies.line, cause.into())
    })
}

pub(super) const DIRECTIONS: &[&str] = &[
    "read",
    "write",
    "randread",
    "randwrite",
    "rw",
    "readwrite",
    "randrw",
    "trim",
    "randtrim",
    "trimwrite",
    "randtrimwrite",
];

#[cfg(test)]
mod tests {
    use super::super::JobFile;

    #[test]
    fn all_that_is_refused_of_a_file_is_told_at_once_with_its_lines() {
        let text =
            "[a]\nioengine=exec\n[b]\nrw=upward\nioscheduler=bfq\n/x\n[c]\nrw=read\nverify=md5\n";
        let error = JobFile::parse("my.fio", text).unwrap_err().to_string();
        let lines: Vec<&str> = error.lines().collect();
        let begins = [
            "my.fio cannot be run as a load:",
            "  - my.fio:2: ioengine=exec is not supported in a load: engines that",
            "  - my.fio:4: rw=upward is not supported in a load: known are read,",
            "  - my.fio:5: option ioscheduler is refused: it would switch",
            "  - my.fio:6: cannot read this line: this is not option=value",
            "  - my.fio:9: option verify is refused: this job writes nothing",
        ];
        assert_eq!(lines.len(), begins.len(), "{error}");
        for (line, begin) in lines.iter().zip(begins) {
            assert!(line.starts_with(begin), "{error}");
        }
    }

    #[test]
    fn what_would_reach_beyond_the_target_is_replaced_and_said() {
        let text = "[a]\nrw=read\ndirect=1\nfilename=/etc/passwd\ndirectory=/\nexec_prerun=rm -rf /\nwrite_bw_log=x\n\
                    gtod_reduce=1\nfrobnicate=1\n";
        let file = JobFile::parse("j", text).unwrap();
        assert_eq!(
            file.remark().unwrap(),
            "filename, directory: replaced by the target; exec_prerun: replaced by an empty page cache (no program runs \
             beside a trial); write_bw_log: replaced by the record; gtod_reduce: replaced by all latencies"
        );
        let kept = file.jobs[0].assignments.iter();
        let kept: Vec<&str> = kept.map(|assignment| assignment.key.as_str()).collect();
        assert_eq!(kept, ["rw", "direct", "frobnicate"]);
    }
}
