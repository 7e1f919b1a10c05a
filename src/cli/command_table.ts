import type { Command, Group } from "./args.ts";

export type Row = { name: string; summary: string; load: () => Promise<Command | Group> };

/** Every command, for help and completion too. A command is loaded only when it runs, so that `verk keys` does not load the server. */
export const COMMANDS: readonly Row[] = [
  { name: "serve", summary: "Run the server", load: async () => (await import("./commands/serve.ts")).serve },
  {
    name: "status",
    summary: "Show the server: version, devices, running jobs and deployments",
    load: async () => (await import("./commands/status.ts")).status,
  },
  {
    name: "run",
    summary: "Serve a model and chat with it, in one command",
    load: async () => (await import("./commands/run.ts")).run,
  },
  { name: "deploy", summary: "Serve a model", load: async () => (await import("./commands/deploy.ts")).deploy },
  {
    name: "deployments",
    summary: "List, show, stop, start and delete deployments",
    load: async () => (await import("./commands/manage/deployments.ts")).deployments,
  },
  { name: "chat", summary: "Chat with a deployment", load: async () => (await import("./commands/chat.ts")).chat },
  {
    name: "models",
    summary: "List, show, import, pull and delete models",
    load: async () => (await import("./commands/manage/models.ts")).models,
  },
  {
    name: "traces",
    summary: "List, show and export the traces of requests",
    load: async () => (await import("./commands/manage/traces.ts")).traces,
  },
  {
    name: "jobs",
    summary: "Train models: start, watch and control training jobs",
    load: async () => (await import("./commands/manage/jobs.ts")).jobs,
  },
  {
    name: "eval",
    summary: "Compare models on a dataset, with margins of error",
    load: async () => (await import("./commands/eval.ts")).evaluate,
  },
  {
    name: "experiments",
    summary: "List, show, cancel and delete experiments",
    load: async () => (await import("./commands/manage/experiments.ts")).experiments,
  },
  {
    name: "datasets",
    summary: "Push, pull, append to and snapshot datasets",
    load: async () => (await import("./commands/manage/datasets.ts")).datasets,
  },
  {
    name: "annotate",
    summary: "Annotate the items of a queue at the terminal",
    load: async () => (await import("./commands/annotate.ts")).annotate,
  },
  {
    name: "volumes",
    summary: "Store files on the server; copy them in and out",
    load: async () => (await import("./commands/manage/volumes.ts")).volumes,
  },
  {
    name: "rewards",
    summary: "Test reward code on this machine; push, list and delete reward functions",
    load: async () => (await import("./commands/manage/rewards.ts")).rewards,
  },
  {
    name: "evaluators",
    summary: "Store evaluators: checks, code and judges; score rows with them",
    load: async () => (await import("./commands/manage/evaluators.ts")).evaluators,
  },
  {
    name: "sessions",
    summary: "Run commands in sandboxes on the server",
    load: async () => (await import("./commands/manage/sessions.ts")).sessions,
  },
  {
    name: "detect",
    summary: "Detect generated images and speech; evaluate the detector on your own files, or adapt it to them",
    load: async () => (await import("./commands/detect.ts")).detect,
  },
  {
    name: "verify",
    summary: "Verify the signature of a report of a detection",
    load: async () => (await import("./commands/verify.ts")).verify,
  },
  {
    name: "webhooks",
    summary: "Manage webhooks; test a receiver",
    load: async () => (await import("./commands/manage/webhooks.ts")).webhooks,
  },
  {
    name: "monitors",
    summary: "Watch metrics; get events when they pass a threshold",
    load: async () => (await import("./commands/manage/monitors.ts")).monitors,
  },
  {
    name: "agents",
    summary: "Save a deployment with a prompt, tools and sampling as a model",
    load: async () => (await import("./commands/manage/agents.ts")).agents,
  },
  {
    name: "regions",
    summary: "Add, list and remove other machines where jobs run",
    load: async () => (await import("./commands/regions.ts")).regions,
  },
  {
    name: "keys",
    summary: "Create, list and revoke API keys; rotate the master key",
    load: async () => (await import("./commands/manage/keys.ts")).keys,
  },
  {
    name: "users",
    summary: "Add, list and remove people; change roles; reset passwords",
    load: async () => (await import("./commands/users.ts")).users,
  },
  {
    name: "workspaces",
    summary: "Create, list, suspend, resume and delete workspaces",
    load: async () => (await import("./commands/manage/workspaces.ts")).workspaces,
  },
  {
    name: "credits",
    summary: "Show and grant the credit of a workspace",
    load: async () => (await import("./commands/manage/credits.ts")).credits,
  },
  {
    name: "config",
    summary: "Print and check the configuration; print the defaults",
    load: async () => (await import("./commands/config.ts")).config,
  },
  {
    name: "audit",
    summary: "Export the audit log as a hash chain; verify an export",
    load: async () => (await import("./commands/operate/audit.ts")).audit,
  },
  {
    name: "backup",
    summary: "Make, list, verify and restore backups",
    load: async () => (await import("./commands/backup.ts")).backup,
  },
  {
    name: "upgrade",
    summary: "Install a signed release; go back by itself if it does not work",
    load: async () => (await import("./commands/updates/upgrade.ts")).upgrade,
  },
  {
    name: "rollback",
    summary: "Go back to the version before the last upgrade",
    load: async () => (await import("./commands/updates/rollback.ts")).rollback,
  },
  {
    name: "bundle",
    summary: "Make, verify and extract signed releases",
    load: async () => (await import("./commands/updates/bundle.ts")).bundle,
  },
  {
    name: "tls",
    summary: "Make certificates for this server and its clients",
    load: async () => (await import("./commands/tls.ts")).tls,
  },
  {
    name: "doctor",
    summary: "Check this machine and the data directory",
    load: async () => (await import("./commands/doctor.ts")).doctor,
  },
  {
    name: "support-bundle",
    summary: "Write an archive for a request for help, without secrets and content",
    load: async () => (await import("./commands/operate/support_bundle.ts")).supportBundle,
  },
  {
    name: "demo",
    summary: "Try all features on a temporary server",
    load: async () => (await import("./commands/demo.ts")).demo,
  },
  {
    name: "completion",
    summary: "Print a completion script for bash, zsh or fish",
    load: async () => (await import("./commands/completion.ts")).completion,
  },
  { name: "man", summary: "Print the manual page verk(1)", load: async () => (await import("./commands/man.ts")).man },
  {
    name: "licenses",
    summary: "Print the licenses of everything inside the executable",
    load: async () => (await import("./commands/licenses.ts")).licenses,
  },
  { name: "version", summary: "Print the version", load: async () => (await import("./commands/version.ts")).version },
];

/** Every command with its flags. */
export const loadCommands = () =>
  Promise.all(COMMANDS.map(async ({ name, summary, load }) => ({ name, summary, entry: await load() })));
