import { z } from "zod";
import { isId } from "../../lib/ids.ts";
import { normalizeHost, parseCidr } from "../../lib/net/ip.ts";
import { parseListen } from "../../lib/net/listen.ts";
import { acme } from "./acme.ts";
import { backup } from "./backup.ts";
import { gpu, serving, workers } from "./machine.ts";
import { metrics } from "./metrics.ts";
import { isCompleteOidc, oidc } from "./oidc.ts";
import { quotas } from "./quotas.ts";
import { milliseconds, secret, section, setting, type ValuesOf } from "./section.ts";
import { updates } from "./updates.ts";
import {
  apiKeys,
  audit,
  batches,
  billing,
  connectors,
  conversations,
  customJobs,
  datasets,
  detect,
  events,
  monitors,
  publicRuns,
  queues,
  responses,
  sandbox,
  sessions,
  traces,
  training,
  volumes,
  webhooks,
  workspaces,
} from "./work.ts";

/**
 * Every setting of the product, once: its type, default and one line of doc. The file format, the environment
 * names and config/default.toml are derived from this tree. An empty string means "not set".
 */

const isOrigin = (text: string) => text === "*" || (URL.canParse(text) && new URL(text).origin === text);
const isPublicUrl = (text: string) =>
  text === "" || (/^https?:\/\//.test(text) && URL.canParse(text) && !/[/?#]$/.test(text));

const http = section("The port of the API and of the detection service.", {
  listen: setting("127.0.0.1:7070", "Address and port to listen on; port 0 picks a free one.", () =>
    z
      .string()
      .refine((text) => parseListen(text) !== undefined, "expected host:port, such as 127.0.0.1:7070 or [::]:7070"),
  ),
  public_url: setting(
    "",
    "Address at which clients reach this server, used in links; empty = the address or own name that the client used.",
    () => z.string().refine(isPublicUrl, "expected http(s)://host[:port][/path] without a trailing slash"),
  ),
  tls_cert: setting(
    "",
    "PEM file of the certificate and its intermediates; empty = plain HTTP. A changed file is used within 10 s.",
    () => z.string(),
  ),
  tls_key: setting("", "PEM file of the private key of tls_cert, without a passphrase.", () => z.string()),
  tls_client_ca: setting(
    "",
    "PEM file of authorities: only clients with a certificate of these may connect; empty = all clients.",
    () => z.string(),
  ),
  hsts_seconds: setting(
    86_400,
    "With TLS, browsers use https for every port of this host name for this long (HSTS); 0 = not sent.",
    () => z.int().min(0).max(63_072_000),
  ),
  redirect_listen: setting(
    "",
    "With TLS: address of a plain HTTP port that redirects browsers to https; empty = none.",
    () =>
      z
        .string()
        .refine((text) => text === "" || parseListen(text) !== undefined, "expected host:port, such as 0.0.0.0:80"),
  ),
  max_body_bytes: setting(10_485_760, "Largest JSON request body; routes that need little take 256 KiB.", () =>
    z.int().min(1024).max(1_073_741_824),
  ),
  body_memory_bytes: setting(
    536_870_912,
    "Most bytes of request bodies in memory, in all; beyond it requests get 503.",
    () => z.int().min(1_048_576),
  ),
  workspace_body_memory_bytes: setting(
    134_217_728,
    "The same for one workspace; a single body within its own limit always fits.",
    () => z.int().min(1_048_576),
  ),
  body_timeout_seconds: setting(
    300,
    "Longest time for a body in memory to arrive; uploads to the disk may take longer.",
    () => z.int().min(1).max(86_400),
  ),
  min_upload_bytes_per_second: setting(
    100,
    "An upload to the disk that is slower, on average over a minute, is cut off; 0 = only a silent one.",
    () => z.int().min(0),
  ),
  max_requests_per_key: setting(
    2048,
    "Requests of one key at the same time, reads not counted; beyond it 429; 0 = off.",
    () => z.int().min(0),
  ),
  max_streams_per_key: setting(
    512,
    "Open streams of one key (events, logs, commands, completions); beyond it 429; 0 = off.",
    () => z.int().min(0),
  ),
  max_streams_per_workspace: setting(1024, "The same for one workspace.", () => z.int().min(0)),
  max_streams: setting(4096, "The same for all keys together; beyond it 503.", () => z.int().min(0)),
  idle_timeout_seconds: setting(
    60,
    "An idle connection is closed after this long; streams send a heartbeat every 15 s.",
    () => z.int().min(20).max(255),
  ),
  cors_origins: setting(
    [],
    "Origins that browsers may call from; localhost = pages of the same machine on any port; empty = none.",
    () =>
      z.array(
        z
          .string()
          .refine(
            (text) => text === "localhost" || isOrigin(text),
            'expected an origin such as https://app.example.com, "localhost", or "*"',
          ),
      ),
  ),
  ollama_local_key: setting(
    "",
    "Id of the API key (key_…) that programs of this machine use on Ollama's routes without sending a key; empty = none.",
    () =>
      z.string().refine((text) => text === "" || isId(text, "key"), "expected the id of an API key, such as key_01…"),
  ),
  rate_limit_per_second: setting(1000, "Steady requests per second for one key; 0 = off.", () => z.number().min(0)),
  rate_limit_burst: setting(2000, "Requests one key may send at once; 0 = off.", () => z.int().min(0)),
  trusted_proxies: setting([], "Proxies whose X-Forwarded-For is trusted: addresses or CIDRs; empty = none.", () =>
    z.array(z.string().refine((text) => parseCidr(text) !== undefined, "expected an address or a CIDR")),
  ),
  idempotency_hours: setting(24, "How long the answer to an Idempotency-Key is kept.", () => z.int().min(1).max(720)),
});

const log = section("The log goes to standard error.", {
  level: setting("auto", "debug, info, warn or error, or auto: warn at a terminal, info elsewhere.", () =>
    z.enum(["auto", "debug", "info", "warn", "error"]),
  ),
  format: setting("auto", "json (one object per line), text, or auto: text at a terminal, json elsewhere.", () =>
    z.enum(["auto", "json", "text"]),
  ),
});

const watchdog = section("Turns of the event loop that keep all other requests waiting.", {
  turn_ms: setting(
    200,
    "A turn with this much processor time is a warning in the log; 0 = turns are not measured.",
    () => z.int().min(0).max(60_000),
  ),
  sampling: setting(
    "after_long_turn",
    "When the stack of the server is sampled, which that warning shows; always costs some percent of a request.",
    () => z.enum(["never", "after_long_turn", "always"]),
  ),
});

const db = section("SQLite.", {
  busy_timeout_ms: setting(
    1000,
    "Longest wait for another process that writes; no request is served meanwhile.",
    milliseconds,
  ),
  wal_checkpoint_pages: setting(500, "Pages of 4 KiB in the log before a checkpoint.", () => z.int().min(1)),
  cache_mib: setting(32, "Page cache.", () => z.int().min(1).max(65_536)),
});

const network = section("Outbound connections.", {
  allow_private: setting(false, "Allow private ranges (RFC 1918, CGNAT, ULA).", () => z.boolean()),
  allow: setting([], "Exact host names, addresses or CIDRs that are always allowed, loopback included.", () =>
    z.array(
      z
        .string()
        .refine((text) => !!parseCidr(text) || !!normalizeHost(text), "expected a host name, an address or a CIDR"),
    ),
  ),
  ca_file: setting("", "PEM file of certificate authorities to trust beside the public ones.", () => z.string()),
});

const shutdown = section("Stopping.", {
  deadline_ms: setting(15_000, "Longest time of an orderly shutdown.", milliseconds),
});

const secrets = section("Encryption at rest.", {
  master_key_file: setting(
    "",
    "Empty = the systemd credential master.key where there is one, else master.key in data_dir.",
    () => z.string(),
  ),
});

const hub = section("The source of models that are not on this machine.", {
  endpoint: setting(
    "https://huggingface.co",
    "A hub with the Hugging Face protocol; never used when offline = true.",
    () => z.string().refine((text) => /^https?:\/\//.test(text) && URL.canParse(text), "expected an http(s) address"),
  ),
  token: secret(setting("", "Access token for private or gated models; empty = none.", () => z.string())),
  token_for: setting(
    "admin",
    "Workspaces that may use hub.token: those with an admin key, or all. Others store their own as the secret HUB_TOKEN.",
    () => z.enum(["admin", "all"]),
  ),
});

const storage = section("The storage of volumes, models and artifacts.", {
  kind: setting("local", "local (in data_dir) or s3.", () => z.enum(["local", "s3"])),
  min_free_bytes: setting(
    1_073_741_824,
    "New content is rejected while the disk of data_dir has less free space than this; 0 = never.",
    () => z.int().min(0),
  ),
  s3_endpoint: setting("", "Empty = Amazon's own for the region; else such as http://minio.lab:9000.", () =>
    z
      .string()
      .refine(
        (text) => text === "" || (/^https?:\/\//.test(text) && URL.canParse(text)),
        "expected an http(s) address",
      ),
  ),
  s3_region: setting("us-east-1", "The bucket's region.", () => z.string()),
  s3_bucket: setting("", "Must exist; needed for kind = s3.", () => z.string()),
  s3_prefix: setting("", "Put before every key, such as verk/.", () => z.string()),
  s3_path_style: setting(true, "Address the bucket in the path, not in the host name.", () => z.boolean()),
  s3_access_key_id: secret(setting("", "Empty = none: the bucket must be open to this machine.", () => z.string())),
  s3_secret_access_key: secret(setting("", "Belongs to the access key.", () => z.string())),
});

const clouds = section("Machines that commands of the operator make and end (docs/clouds.md).", {
  files: setting(
    [],
    "Files of clouds, absolute paths. The name of a file is the name of its cloud: /etc/verk/aws.toml is aws.",
    () => z.array(z.string().refine((path) => path.startsWith("/"), "expected an absolute path")),
  ),
});

export const SETTINGS = {
  data_dir: setting("", "Everything the server keeps. Empty = /var/lib/verk, else ~/.local/share/verk.", () =>
    z.string(),
  ),
  offline: setting(
    false,
    "Make no outbound connection for a model or a dataset of the hub: use what is on this machine.",
    () => z.boolean(),
  ),
  http,
  acme,
  log,
  watchdog,
  db,
  network,
  workers,
  shutdown,
  events,
  secrets,
  hub,
  clouds,
  serving,
  gpu,
  datasets,
  connectors,
  storage,
  backup,
  metrics,
  updates,
  volumes,
  quotas,
  sandbox,
  sessions,
  traces,
  batches,
  conversations,
  responses,
  queues,
  training,
  custom_jobs: customJobs,
  webhooks,
  monitors,
  detect,
  billing,
  workspaces,
  api_keys: apiKeys,
  oidc,
  audit,
  public_runs: publicRuns,
};

export type Settings = ValuesOf<typeof SETTINGS>;

/** The conditions between settings. */
export const RULES = [
  {
    path: "detect.port",
    message: "expected another port than that of http.listen, which has detection too",
    holds: ({ http, detect }) => detect.port < 1 || detect.port !== parseListen(http.listen)?.port,
  },
  {
    path: "http.tls_key",
    message: "expected http.tls_cert and http.tls_key together, or neither",
    holds: ({ http }) => (http.tls_cert === "") === (http.tls_key === ""),
  },
  {
    path: "http.tls_cert",
    message: "expected a certificate, because http.tls_client_ca and http.redirect_listen need TLS",
    holds: ({ http }) => http.tls_cert !== "" || (http.tls_client_ca === "" && http.redirect_listen === ""),
  },
  {
    path: "backup.target",
    message: "expected a target, because backup.schedule is set",
    holds: ({ backup }) => backup.schedule === "" || backup.target !== "",
  },
  {
    path: "backup.recipient_file",
    message: "expected a passphrase or a recipient, not both",
    holds: ({ backup }) => backup.passphrase_file === "" || backup.recipient_file === "",
  },
  {
    path: "oidc.issuer",
    message: "expected oidc.client_id and oidc.roles beside it",
    holds: ({ oidc }) => isCompleteOidc(oidc),
  },
  {
    path: "oidc.client_secret_file",
    message: "expected oidc.client_secret or oidc.client_secret_file, not both",
    holds: ({ oidc }) => oidc.client_secret === "" || oidc.client_secret_file === "",
  },
] satisfies { path: string; message: string; holds: (settings: Settings) => boolean }[];
