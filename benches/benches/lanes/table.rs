//! The table: medians over the runs, and the ratios that are asked for.

use super::Side;
use super::meter::Figures;

const MIB: f64 = 1_048_576.0;

pub(crate) fn head() {
    println!(
        "{:>6} {:<5} {:>10} {:>7} {:>8} {:>9} {:>9} {:>9}   {:>9} {:>9} {:>9}",
        "bytes",
        "side",
        "per second",
        "MiB/s",
        "cpu us",
        "gap p50",
        "gap p99",
        "gap max",
        "ctl idle",
        "busy p50",
        "busy p99"
    );
}

pub(crate) fn run(size: usize, side: Side, figures: &Figures) {
    println!(
        "{size:>6} {:<5} {:>10.0} {:>7.1} {:>8.2} {:>9.4} {:>9.3} {:>9.2}   {:>9.3} {:>9.3} {:>9.3}",
        side.name(),
        figures.per_second,
        figures.per_second * size as f64 / MIB,
        figures.cpu_us,
        figures.gap_p50_ms,
        figures.gap_p99_ms,
        figures.gap_max_ms,
        figures.idle_p50_ms,
        figures.busy_p50_ms,
        figures.busy_p99_ms,
    );
}

/// The runs with messages of one size.
pub(crate) struct Pairs {
    size: usize,
    bare: Vec<Figures>,
    lane: Vec<Figures>,
}

impl Pairs {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            size,
            bare: Vec::new(),
            lane: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, side: Side, figures: Figures) {
        match side {
            Side::Bare => self.bare.push(figures),
            Side::Lane => self.lane.push(figures),
        }
    }

    pub(crate) fn show(&self) {
        for (side, runs) in [(Side::Bare, &self.bare), (Side::Lane, &self.lane)] {
            if !runs.is_empty() {
                run(self.size, side, &medians(runs));
            }
            let trips = runs.iter().map(|run| run.busy_p50_ms / run.idle_p50_ms);
            if let Some([least, middle, most]) = spread(trips.collect()) {
                println!(
                    "       {}: control round trips under load {middle:.2} times the idle ones ({least:.2} to \
                     {most:.2}; asked for: under 3)",
                    side.name()
                );
            }
        }
        let both = self.lane.iter().zip(&self.bare);
        let ratios = both.map(|(lane, bare)| lane.per_second / bare.per_second);
        if let Some([least, middle, most]) = spread(ratios.collect()) {
            println!(
                "       lane over bare, of {} pairs: {middle:.2} ({least:.2} to {most:.2}; asked for: 0.90)",
                self.lane.len()
            );
        }
    }
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Lane => "lane",
        }
    }
}

/// Least, median and largest.
fn spread(mut of: Vec<f64>) -> Option<[f64; 3]> {
    of.sort_by(f64::total_cmp);
    Some([*of.first()?, of[of.len() / 2], *of.last()?])
}

/// The median of each figure; of the longest gap, the longest.
fn medians(runs: &[Figures]) -> Figures {
    let of = |figure: fn(&Figures) -> f64| spread(runs.iter().map(figure).collect()).unwrap();
    Figures {
        per_second: of(|run| run.per_second)[1],
        cpu_us: of(|run| run.cpu_us)[1],
        gap_p50_ms: of(|run| run.gap_p50_ms)[1],
        gap_p99_ms: of(|run| run.gap_p99_ms)[1],
        gap_max_ms: of(|run| run.gap_max_ms)[2],
        idle_p50_ms: of(|run| run.idle_p50_ms)[1],
        busy_p50_ms: of(|run| run.busy_p50_ms)[1],
        busy_p99_ms: of(|run| run.busy_p99_ms)[1],
    }
}
