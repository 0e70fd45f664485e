//! The **local API**: HTTP with JSON on a Unix socket in the home folder. The command line uses
//! nothing else to talk to a running daemon.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/status` | [`StatusReport`] |
//! | `POST /v1/send` with [`SendRequest`] | [`SendReceipt`], once the lease is durable, the frame is in its lane and, where it goes by way of others, a report or an answer of its destination came |
//! | `POST /v1/offer_again` with [`OfferAgainRequest`] | [`SendReceipt`] of the bytes offered |
//! | `GET /v1/peers` | [`PeersReport`] |
//! | `POST /v1/peers`, `DELETE /v1/peers` with [`PeerRequest`] | [`PeerChanged`] |
//! | `POST /v1/ping` with [`DestinationRequest`] | [`PingReport`] |
//! | `POST /v1/route` with [`DestinationRequest`] | [`RouteReport`] |
//! | `GET /v1/bounds` | [`BoundsReport`] |
//! | `GET /v1/admissions` | [`AdmissionsReport`] |
//! | `GET /v1/health` | [`HealthReport`] |
//! | `GET /v1/links` | [`LinksReport`] |
//! | `GET /v1/log`, `PUT /v1/log` with [`LogRequest`] | [`LogReport`] |
//! | `POST /v1/backup` with [`BackupRequest`] | [`BackupReport`], once the copy is whole |
//! | `POST /v1/key/rotate` with [`Nothing`] | [`DelegateeReport`] of the key that signs from then on |
//! | `POST /v1/key/renew` with [`Nothing`] | [`DelegateeReport`] of the key that an account kept elsewhere signed for |
//! | `GET /v1/streams` | [`StreamsReport`] |
//! | `GET /v1/openapi.json` | all of this, as OpenAPI |
//! | `GET /metrics` | the numbers of a node as OpenMetrics text; also on TCP, if switched on |
//! | `GET /v1/events` | an [`EventLine`] a line, or as server-sent events where those are accepted |
//! | `GET /v1/watch` | the same, and with it the right to take messages while it is read |
//! | `GET /v1/refs` | [`ReferencesReport`] |
//! | `POST /v1/refs/revoke` with [`RevokeRequest`] | [`ReferenceReport`] as it is then |
//! | `DELETE /v1/refs` with [`DropRequest`] | [`ReferenceReport`] as it was |
//! | `POST /v1/share` with [`ShareRequest`] | [`SharedReport`] |
//! | `POST /v1/fetch` with [`FetchRequest`] | a [`FetchLine`] a line, the file's parts in order among them |
//! | `GET /v1/groups` | [`GroupsReport`] |
//! | `POST /v1/groups` with [`CreateGroupRequest`] | [`GroupReport`] |
//! | `POST /v1/groups/invite` with [`InviteGroupRequest`] | [`InvitedReport`] |
//! | `POST /v1/groups/remove` with [`RemoveGroupRequest`] | [`GroupReport`] as it is then |
//! | `POST /v1/groups/join` with [`JoinGroupRequest`] | [`GroupReport`] |
//! | `POST /v1/groups/post` with [`PostRequest`] | [`PostedReport`], once all is durable |
//! | `POST /v1/groups/read` with [`ReadGroupRequest`] | [`PageReport`] |
//! | `POST /v1/groups/follow` with [`ReadGroupRequest`] | a [`FollowLine`] a line, in order and without a gap |
//! | `POST /v1/groups/sync` with [`GroupRequest`] | [`SyncedReport`] |
//! | `POST /v1/groups/plan` with [`GroupRequest`] | [`PlanReport`] |
//! | `POST /v1/groups/leave` with [`GroupRequest`] | [`LeftReport`] |
//! | `GET /v1/inbox`, `POST /v1/inbox/fetch` | [`InboxReport`] |
//! | `POST /v1/inbox/take` with [`TakeMailRequest`] | [`TakenMessage`], opened |
//! | `POST /v1/inbox/probe` | [`ProbeReport`] |
//! | `GET /dashboard` | the page of the dashboard, on TCP alone; what it loads is beneath |
//! | `POST /v1/take` with [`TakeRequest`] | [`TakenMessage`], once there is one |
//!
//! Everything else is answered with [`Refusal`]. The socket has mode 0600, and a process of
//! another user is refused by its credentials. On TCP, if that is switched on, [`Gate`] stands before it.

mod admissions;
mod client;
mod dashboard;
mod error;
mod gate;
mod groups;
mod handlers;
mod inbox;
mod metrics;
mod names;
mod object;
mod openapi;
mod references;
mod report;
mod server;
mod socket;
mod story;
mod streams;
mod types;
mod upload;

pub use crate::words::{counted, instant};
pub use admissions::{ADMISSION_SPAN, ADMISSION_SPANS_MAX, AdmissionSpan, AdmissionsReport};
pub use client::{Client, ClientError, Lines};
pub use dashboard::DASHBOARD_PATH;
pub use error::ApiError;
pub use gate::{ALLOWED_MAX, Gate, GateError, token_of};
pub use groups::{
    CourseReport, CreateGroupRequest, FollowLine, GroupReport, GroupRequest, GroupsReport,
    InviteGroupRequest, InvitedReport, JoinGroupRequest, LeftReport, PageReport, PlanReport,
    PostReport, PostRequest, PostedPost, PostedReport, ReadGroupRequest, RemoveGroupRequest,
    SyncedReport,
};
pub use inbox::{
    ArrivedReport, EndedReport, HeldInboxReport, HeldReport, HoldReport, HolderReport, InboxReport,
    ProbeReport, ProbedReport, TakeMailRequest, WaitingReport,
};
pub use metrics::{METRICS_CONTENT_TYPE, metrics_page, metrics_text};
pub use names::{ClassName, FaultName};
pub use openapi::openapi;
pub use references::{
    DropRequest, FetchLine, FetchRequest, FileReport, ReasonReport, ReferenceReport,
    ReferencesReport, RevokeRequest, ShareRequest, SharedReport,
};
pub use report::verdict_word;
pub use server::{LocalApi, OpenedStore, Renewal};
pub use socket::{LocalListener, bind};
pub use story::{ExplainRequest, FactReport, StepReport, StoryReport, TransactionReport};
pub use types::{
    AttemptReport, BackupReport, BackupRequest, BoundReport, BoundsReport, BucketReport, Cause,
    DelegateeReport, DestinationRequest, DistributionReport, EventLine, HealthReport,
    IceServerReport, Identity, LaneReport, LinkReport, LinksReport, LogReport, LogRequest,
    NeighbourReport, Nothing, OfferAgainRequest, PeerChanged, PeerReport, PeerRequest, PeersReport,
    PingReport, QueueReport, ReceivingReport, Refusal, RouteReport, SendOutcome, SendReceipt,
    SendRequest, SendingReport, SlotReport, StatusReport, StoreReport, StreamsReport, TakeRequest,
    TakenMessage, UploadLine, UploadRequest, WayReport,
};
