//! The page of evidence: for each drive what is known of it, with a forest plot.

use iosched_evidence::pool::{CONFIDENCE, Finding, LEAST_MACHINES};

use super::table::HtmlTable;
use super::{FigureSet, Page, Room, Section, render};
use crate::chart::of_evidence::forest;
use crate::evidence::{drive_words, sentence, table};
use crate::words::percent;

/// So many plots keep the page small; the rest is in tables.
const MOST_CHARTS: usize = 40;

/// The page, as HTML; `name` is that of the dataset.
pub fn evidence(name: &str, findings: &[Finding]) -> String {
    let mut arms: Vec<&str> = findings
        .iter()
        .flat_map(|finding| finding.arms.iter().map(|arm| &*arm.arm))
        .collect();
    arms.sort_unstable();
    arms.dedup();
    let known = findings.iter().filter(|finding| finding.is_known()).count();
    let mut left = MOST_CHARTS;
    let of_drives = findings.chunk_by(|a, b| {
        let of = |finding: &Finding| (finding.question.source, finding.question.level);
        let drive = |finding: &Finding| {
            (
                finding.question.drive.clone(),
                finding.question.class.clone(),
            )
        };
        of(a) == of(b) && drive(a) == drive(b)
    });
    let sections = of_drives.enumerate().map(|(number, findings)| {
        let charts: Vec<_> = findings
            .iter()
            .filter_map(|finding| forest(finding, &arms))
            .take(left)
            .collect();
        left -= charts.len();
        let tables = findings.iter().filter(|finding| !finding.arms.is_empty());
        let tables = tables.map(|finding| {
            let best = finding.take.first().map(|arm| &**arm);
            HtmlTable::of(&sentence(finding), &table(finding, ""), best).html()
        });
        Section {
            id: format!("drive-{}", number + 1),
            title: drive_words(&findings[0]),
            tables: tables.collect(),
            sets: FigureSet::of(&charts, Room::AMPLE),
            ..Section::default()
        }
    });
    let sections: Vec<Section> = sections.collect();
    let mut sentences = vec![format!(
        "Ratios are to the arm that most machines measured; above 1 is better, whatever decides. In brackets stands what \
         holds with {}: of the mean over machines, and of the next machine. Fewer than {LEAST_MACHINES} machines say nothing.",
        percent(CONFIDENCE)
    )];
    if left == 0 {
        sentences.push(format!(
            "The first {MOST_CHARTS} questions have plots; --model, --load-class and --kernel choose others."
        ));
    }
    render(&Page {
        title: format!("Evidence of {name}"),
        subtitle: format!(
            "{} questions, of which {known} are answered",
            findings.len()
        ),
        sentences,
        sections,
        ..Page::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_evidence::fixture::{Fleet, Size};
    use iosched_evidence::pool::Groups;

    #[test]
    fn a_page_has_each_drive_a_bounded_number_of_plots_and_no_name_as_markup() {
        let size = Size {
            machines: 600,
            models: 12,
            loads: 3,
        };
        let mut rows = Fleet::new(5, size).rows;
        for row in &mut rows {
            if &*row.model == "Maker Series A 1TB" {
                row.model = "<script>alert(1)</script>".into();
            }
        }
        let findings = Groups::of(&rows, |_| true).findings();
        let page = evidence("fleet", &findings);
        assert_eq!(page.matches("<figure").count(), MOST_CHARTS);
        assert!(page.contains("&#60;script&#62;alert(1)") && !page.contains("<script>alert"));
        assert!(page.contains("Maker Series B (sata-ssd) (family)"));
        assert!(page.len() < 2 << 20, "{}", page.len());
    }
}
