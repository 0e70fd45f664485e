//! A node's numbers in OpenMetrics text: what `GET /metrics` answers and `overlane metrics` prints.
//!
//! Everything comes from [`StatusReport`] and the bound sheet at the instant that is asked for, so a
//! metric says what `overlane status` says, and costs nothing while nobody asks. One table lists the
//! families; the text and the page of the documentation are made from it. No label holds a Did or an
//! address: labels are words and codes of this program, so their number is bounded.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::types::{BoundReport, LaneReport, StatusReport};

/// What every name begins with.
const PREFIX: &str = "overlane";

/// The content type of the text.
pub const METRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Verdicts of the replay boundary that admit, and that do not.
const ADMITTING: [&str; 3] = ["first", "advance", "late"];
const REFUSING: [&str; 3] = ["replay", "fork", "stale"];

/// Microseconds in a second.
const MICROS: u32 = 1_000_000;

/// What a node says of itself at one instant.
#[derive(Debug)]
struct Sample {
    status: StatusReport,
    bounds: Vec<BoundReport>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    /// Of the distribution of this name, whose values are so many to the unit.
    Histogram {
        of: &'static str,
        per_unit: u32,
    },
}

/// A value, and the values of its family's labels in the family's order.
type Value = (Vec<String>, f64);

/// Metrics of one name.
struct Family {
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
    values: fn(&Sample) -> Vec<Value>,
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    values: fn(&Sample) -> Vec<Value>,
) -> Family {
    Family {
        kind: Kind::Counter,
        ..gauge(name, labels, help, values)
    }
}

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    values: fn(&Sample) -> Vec<Value>,
) -> Family {
    Family {
        name,
        kind: Kind::Gauge,
        labels,
        help,
        values,
    }
}

const fn histogram(
    name: &'static str,
    of: &'static str,
    per_unit: u32,
    help: &'static str,
) -> Family {
    Family {
        kind: Kind::Histogram { of, per_unit },
        ..gauge(name, &[], help, |_| Vec::new())
    }
}

const FAMILIES: &[Family] = &[
    gauge(
        "uptime_seconds",
        &[],
        "Time since the node started",
        |sample| one(sample.status.uptime_ms as f64 / 1_000.0),
    ),
    gauge(
        "delegation_end_timestamp_seconds",
        &[],
        "When the current delegation ends, since the Unix epoch; the node renews it before",
        |sample| one(sample.status.delegation_ends_ms as f64 / 1_000.0),
    ),
    gauge(
        "store_durable",
        &["kind"],
        "Whether the replay store is durable: 1, or 0 while every send and admission is refused",
        |sample| {
            let store = &sample.status.store;
            let durable = f64::from(u8::from(store.state == "durable"));
            vec![(vec![store.kind.clone()], durable)]
        },
    ),
    gauge(
        "references_durable",
        &[],
        "Whether the store of references takes writes: 1, or 0 once it failed",
        |sample| {
            one(f64::from(u8::from(
                sample.status.references_failed.is_none(),
            )))
        },
    ),
    gauge(
        "groups_durable",
        &[],
        "Whether the store of logs takes writes: 1, or 0 once it failed",
        |sample| one(f64::from(u8::from(sample.status.groups_failed.is_none()))),
    ),
    counter(
        "admitted",
        &["class", "verdict"],
        "Transactions admitted, by class and verdict",
        |sample| of_verdicts(sample, |verdict| ADMITTING.contains(&verdict)),
    ),
    counter(
        "not_admitted",
        &["class", "verdict"],
        "Transactions that the window refused, by class and verdict",
        |sample| of_verdicts(sample, |verdict| REFUSING.contains(&verdict)),
    ),
    histogram(
        "batch_answers",
        "batch_answers",
        1,
        "Answers that waited for a batch of the replay store: what one flush carried",
    ),
    histogram(
        "batch_write_seconds",
        "batch_write_us",
        MICROS,
        "Time from handing a batch to the store until it is durable",
    ),
    histogram(
        "durable_wait_seconds",
        "durable_wait_us",
        MICROS,
        "Time that the first answer of a batch waited until it was durable; the others waited less",
    ),
    counter(
        "replay_events",
        &["event"],
        "What else the replay boundary did: refusals by bound, reservations, batches, changes",
        |sample| {
            of_replay(sample, |event| {
                !ADMITTING.contains(&event) && !REFUSING.contains(&event)
            })
        },
    ),
    counter(
        "node_events",
        &["event"],
        "Frames, messages, forwards, reports and links, since the start",
        |sample| table(&sample.status.counters),
    ),
    counter(
        "frames_refused",
        &["code"],
        "Frames of links that were refused, by code",
        |sample| table(&sample.status.refused),
    ),
    counter(
        "sends_refused",
        &["code"],
        "Sends of this node that were refused, by code",
        |sample| table(&sample.status.sends_refused),
    ),
    counter(
        "offers_refused",
        &["code"],
        "Offers of other nodes that were refused, by code",
        |sample| table(&sample.status.offers_refused),
    ),
    counter(
        "links_not_opened",
        &["code"],
        "Links that ended before they were open, by code: handshakes never finished, no way found",
        |sample| table(&sample.status.links_not_opened),
    ),
    counter(
        "api_refused",
        &["code"],
        "Requests to the local API on TCP that were refused at its gate, by code",
        |sample| table(&sample.status.api_refused),
    ),
    gauge(
        "link_paths",
        &["path"],
        "Links by the way they took: direct, direct through a NAT, relayed by a TURN server",
        |sample| {
            let links = sample.status.links.iter();
            let paths: Vec<_> = links.filter_map(|link| link.path.clone()).collect();
            counted(&paths, |path| vec![path.clone()])
        },
    ),
    gauge(
        "ice_servers",
        &["state"],
        "STUN and TURN servers by how they fared last: works, unreachable, refused, not asked yet",
        |sample| counted(&sample.status.ice_servers, |it| vec![it.state.clone()]),
    ),
    gauge(
        "links",
        &["state"],
        "Links by state: up, disturbed (nothing heard for a while), not_up (on its way, or ending)",
        |sample| {
            counted(&sample.status.links, |link| {
                let state = match (link.up, link.disturbed) {
                    (false, _) => "not_up",
                    (true, true) => "disturbed",
                    (true, false) => "up",
                };
                vec![state.to_owned()]
            })
        },
    ),
    gauge(
        "peers",
        &["state"],
        "Nodes of the configuration, by the state of their link",
        |sample| counted(&sample.status.peers, |peer| vec![peer.state.clone()]),
    ),
    gauge(
        "ring_neighbours",
        &["role", "link"],
        "Nodes that the ring needs, by role and by how they are reached: direct, via another, none",
        |sample| {
            counted(&sample.status.neighbours, |it| {
                vec![it.role.clone(), it.link.clone()]
            })
        },
    ),
    gauge(
        "lane_queued_frames",
        &["class"],
        "Frames that wait to be sent, over all links",
        |sample| of_lanes(sample, |lane| lane.queued as f64),
    ),
    gauge("lane_queued_bytes", &["class"], "Bytes of them", |sample| {
        of_lanes(sample, |lane| lane.queued_bytes as f64)
    }),
    gauge(
        "lane_in_flight",
        &["class"],
        "Messages on their way into the channels, over all links",
        |sample| of_lanes(sample, |lane| lane.in_flight as f64),
    ),
    gauge(
        "lane_credit",
        &["class"],
        "Messages that the peers' windows still allow, over all links",
        |sample| of_lanes(sample, |lane| lane.credit as f64),
    ),
    gauge(
        "lane_untaken",
        &["class"],
        "Messages that came on links and wait for the node, over all links",
        |sample| of_lanes(sample, |lane| lane.untaken as f64),
    ),
    gauge(
        "delegation_references",
        &["number"],
        "Delegations sent by reference, references missed, and frames lost to a miss, over the links that are up",
        of_references,
    ),
    gauge(
        "place_confirmed_age_seconds",
        &[],
        "Time since a lookup last confirmed the node's place in the ring; none until one did",
        |sample| {
            let ago_ms = sample.status.place_confirmed_ago_ms;
            ago_ms.map_or_else(Vec::new, |ago_ms| one(ago_ms as f64 / 1_000.0))
        },
    ),
    gauge(
        "dispatch_held",
        &["class"],
        "Admitted messages that the application has not taken",
        |sample| of_queues(sample, |queue| queue.held),
    ),
    gauge(
        "dispatch_held_high_water",
        &["class"],
        "The most of them at once, since the start",
        |sample| of_queues(sample, |queue| queue.high_water),
    ),
    gauge(
        "pending_sends",
        &[],
        "Sends that are not in a lane yet",
        |sample| one(sample.status.pending_sends as f64),
    ),
    gauge(
        "references",
        &["number"],
        "What references come to, and counts of them since the start",
        |sample| table(&sample.status.references),
    ),
    gauge(
        "groups",
        &["number"],
        "What groups come to, and counts of them since the start",
        |sample| table(&sample.status.groups),
    ),
    gauge(
        "mail_durable",
        &[],
        "Whether the store of mail takes writes: 1, or 0 once it failed",
        |sample| one(f64::from(u8::from(sample.status.mail_failed.is_none()))),
    ),
    gauge(
        "mail",
        &["number"],
        "What mail comes to, held here, held elsewhere and waiting, and counts of it since the start",
        |sample| table(&sample.status.mail),
    ),
    gauge(
        "bound_limit",
        &["bound"],
        "A bound: of replay protection, or one that the configuration sets",
        |sample| of_bounds(sample, |bound| bound.limit),
    ),
    gauge("bound_current", &["bound"], "How full it is", |sample| {
        of_bounds(sample, |bound| bound.current)
    }),
    gauge(
        "bound_high_water",
        &["bound"],
        "How full it has been, since the start",
        |sample| of_bounds(sample, |bound| bound.high_water),
    ),
];

/// The text of a node's numbers.
///
/// # Errors
/// None that can happen: the text goes to memory.
pub fn metrics_text(status: StatusReport, bounds: Vec<BoundReport>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Sample { status, bounds }));
    let mut answer = String::new();
    text::encode(&mut answer, &registry)?;
    Ok(answer)
}

/// The page of the documentation.
pub fn metrics_page() -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         `overlane metrics` prints them, and `overlane run --metrics 127.0.0.1:9464` answers\n\
         `GET /metrics` there for Prometheus, on loopback only. The text is OpenMetrics 1.0. No label holds an\n\
         account or an address. Counters begin at 0 when the node starts; what `event`, `number` and `bound`\n\
         may be, `overlane status` and `overlane bounds` show, and `overlane explain CODE` says what a `code`\n\
         means. Alert rules and a board for Grafana are in [ops/](../ops).\n\n\
         This page is made by `overlane metrics --page`.\n\n\
         | metric | kind | labels | what it is |\n|---|---|---|---|\n",
    );
    for family in FAMILIES {
        let Family {
            name,
            kind,
            labels,
            help,
            ..
        } = family;
        let (kind, end) = match kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
            Kind::Histogram { .. } => ("histogram", ""),
        };
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = labels.join(", ");
        page += &format!("| `{PREFIX}_{name}{end}` | {kind} | {labels} | {help} |\n");
    }
    page
}

impl Collector for Sample {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in FAMILIES {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram { .. } => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            if let Kind::Histogram { of, per_unit } = family.kind {
                self.encode_histogram(metric, of, per_unit)?;
                continue;
            }
            for (labels, value) in (family.values)(self) {
                let labels: Vec<_> = family.labels.iter().copied().zip(labels).collect();
                // An empty set of labels is written as braces with nothing between them otherwise.
                if labels.is_empty() {
                    ConstGauge::new(value).encode(metric)?;
                    break;
                }
                let metric = metric.encode_family(&labels)?;
                match family.kind {
                    Kind::Counter => ConstCounter::new(value).encode(metric)?,
                    Kind::Gauge | Kind::Histogram { .. } => {
                        ConstGauge::new(value).encode(metric)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Sample {
    fn encode_histogram(
        &self,
        mut metric: MetricEncoder<'_>,
        of: &str,
        per_unit: u32,
    ) -> Result<(), fmt::Error> {
        let Some(distribution) = self.status.store_times.get(of) else {
            return Ok(());
        };
        let in_units = |value: u64| value as f64 / f64::from(per_unit);
        let buckets = distribution.buckets.iter();
        let buckets: Vec<_> = buckets
            .map(|bucket| {
                let end = bucket.up_to.map_or(f64::INFINITY, in_units);
                (end, bucket.count)
            })
            .collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        metric.encode_histogram::<NoLabelSet>(in_units(distribution.sum), count, &buckets, None)
    }
}

fn one(value: f64) -> Vec<Value> {
    vec![(Vec::new(), value)]
}

fn table(counts: &BTreeMap<String, u64>) -> Vec<Value> {
    let counts = counts.iter();
    counts
        .map(|(name, &count)| (vec![name.clone()], count as f64))
        .collect()
}

fn of_replay(sample: &Sample, wanted: fn(&str) -> bool) -> Vec<Value> {
    let events = sample.status.replay.iter();
    let wanted = events.filter(|(event, _)| wanted(event));
    wanted
        .map(|(event, &count)| (vec![event.clone()], count as f64))
        .collect()
}

fn of_verdicts(sample: &Sample, wanted: fn(&str) -> bool) -> Vec<Value> {
    let classes = sample.status.verdicts.iter();
    let values = classes.flat_map(|(class, verdicts)| {
        let wanted = verdicts.iter().filter(|(verdict, _)| wanted(verdict));
        wanted.map(|(verdict, &count)| (vec![class.clone(), verdict.clone()], count as f64))
    });
    values.collect()
}

/// How many there are of each.
fn counted<T>(of: &[T], labels: impl Fn(&T) -> Vec<String>) -> Vec<Value> {
    let mut counts = BTreeMap::<_, f64>::new();
    for each in of {
        *counts.entry(labels(each)).or_default() += 1.0;
    }
    counts.into_iter().collect()
}

fn of_lanes(sample: &Sample, value: fn(&LaneReport) -> f64) -> Vec<Value> {
    let mut sums = BTreeMap::<_, f64>::new();
    let links = sample.status.links.iter();
    for lane in links.flat_map(|link| &link.lanes) {
        *sums.entry(vec![lane.class.to_string()]).or_default() += value(lane);
    }
    sums.into_iter().collect()
}

fn of_references(sample: &Sample) -> Vec<Value> {
    let mut sums = BTreeMap::<_, f64>::new();
    let links = sample.status.links.iter();
    for (name, &count) in links.flat_map(|link| &link.delegation_references) {
        *sums.entry(vec![name.clone()]).or_default() += count as f64;
    }
    sums.into_iter().collect()
}

fn of_queues(sample: &Sample, value: fn(&super::types::QueueReport) -> usize) -> Vec<Value> {
    let queues = sample.status.queues.iter();
    queues
        .map(|queue| (vec![queue.class.to_string()], value(queue) as f64))
        .collect()
}

fn of_bounds(sample: &Sample, value: fn(&BoundReport) -> u64) -> Vec<Value> {
    let bounds = sample.bounds.iter();
    bounds
        .map(|bound| (vec![bound.name.clone()], value(bound) as f64))
        .collect()
}
