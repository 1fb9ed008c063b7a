//! Settings with a fixed set of values.

macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident $text:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $name {
            /// The word for it in a configuration file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// The choice for a word.
            #[must_use]
            pub fn find(word: &str) -> Option<Self> {
                match word { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    )*};
}

choices! {
    /// Which signatures a revision needs.
    RequiredSignatures {
        /// None.
        None "none",
        /// The commit signature.
        Commit "commit",
        /// The manifest signatures.
        Manifest "manifest",
        /// Both.
        Both "both",
    }
    /// Refs that anyone who can push could write, and that nothing signs with `trust.require: none`.
    UnsignedRef {
        /// The branch `testing/<node>`.
        Testing "testing",
        /// Rollout records.
        Rollout "rollout",
    }
    /// Whether a repository needs a manifest.
    ManifestRule {
        /// Checked when present.
        Optional "optional",
        /// A revision without one is refused.
        Required "required",
    }
    /// Which pillar the states of a resource get.
    ResourcePillar {
        /// Compiled for the resource: the pillar top file with its id and its grains.
        Resource "resource",
        /// That of the node that manages it, as in Salt.
        Node "node",
    }
    /// The order in which states run.
    RunSchedule {
        /// Level by level, with a sync point between levels.
        Levels "levels",
        /// As soon as what a state needs is done.
        Eager "eager",
        /// One by one, in Salt's order.
        Ordered "ordered",
        /// In the written order where effects overlap, in parallel elsewhere.
        Declared "declared",
    }
    /// What runs of the node's own states do.
    ApplyMode {
        /// Change the host.
        Apply "apply",
        /// Check, report and alert, and change nothing.
        Audit "audit",
    }
    /// Which behaviour applies where Salt and zagent differ.
    CompatMode {
        /// zagent's, which is stricter.
        None "none",
        /// Salt's.
        Salt "salt",
    }
    /// Whether templates may do something.
    TemplatePermission {
        /// Allowed.
        Allow "allow",
        /// Forbidden.
        Forbid "forbid",
    }
    /// How much of the node page is served on the TCP address, where anyone may connect.
    ListenPages {
        /// No page.
        Off "off",
        /// Counts and names; no diffs, messages or graph.
        Summary "summary",
        /// Everything.
        Full "full",
    }
    /// Where nodes report.
    BoardKind {
        /// Nowhere.
        None "none",
        /// A store on this machine.
        Sled "sled",
        /// Refs of a Git repository.
        Git "git",
        /// A NATS key-value bucket.
        Nats "nats",
    }
    /// What moves a node to another revision of the states.
    FollowMode {
        /// The head of the followed branch, unless a states rollout sets another revision.
        Head "head",
        /// Only rollouts; a node without states takes the head.
        Rollouts "rollouts",
    }
    /// When the agent may reboot the host.
    RebootPolicy {
        /// Never; a needed reboot is only reported.
        Never "never",
        /// When one is needed, inside a maintenance window.
        Window "window",
        /// When a state requests one, inside a maintenance window if any is configured.
        OnRequest "asked",
    }
    /// When a webhook is called.
    WebhookOccasion {
        /// A run failed.
        Failure "failure",
        /// A run changed something; in audit mode: the states ask for something that is not applied.
        Change "change",
        /// The host was changed outside zagent.
        Drift "drift",
        /// A run succeeded after one that failed.
        Recovery "recovery",
        /// A revision was rolled back.
        Rollback "rollback",
        /// The manifest expires soon, or has expired.
        Expiry "expiry",
        /// Every run.
        Always "always",
    }
    /// What a webhook is sent.
    WebhookKind {
        /// The event, as JSON.
        Json "json",
        /// The status of the commit, for the API of GitHub.
        GithubStatus "github-status",
        /// The status of the commit, for the API of GitLab.
        GitlabStatus "gitlab-status",
    }
    /// A day of the week.
    Day {
        /// Monday.
        Monday "mon",
        /// Tuesday.
        Tuesday "tue",
        /// Wednesday.
        Wednesday "wed",
        /// Thursday.
        Thursday "thu",
        /// Friday.
        Friday "fri",
        /// Saturday.
        Saturday "sat",
        /// Sunday.
        Sunday "sun",
    }
}
