import { z } from "zod";
import { normalizeHost, parseCidr } from "../../lib/net/ip.ts";
import { parseListen } from "../../lib/net/listen.ts";
import { acme } from "./acme.ts";
import { backup } from "./backup.ts";
import { gpu, serving, workers } from "./machine.ts";
import { metrics } from "./metrics.ts";
import { isCompleteOidc, oidc } from "./oidc.ts";
import { quotas } from "./quotas.ts";
import { milliseconds, secret, section } from "./section.ts";
import { updates } from "./updates.ts";
import {
  apiKeys,
  audit,
  batches,
  billing,
  connectors,
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
  listen: z
    .string()
    .refine((text) => parseListen(text) !== undefined, "expected host:port, such as 127.0.0.1:7070 or [::]:7070")
    .default("127.0.0.1:7070")
    .describe("Address and port to listen on; port 0 picks a free one."),
  public_url: z
    .string()
    .refine(isPublicUrl, "expected http(s)://host[:port][/path] without a trailing slash")
    .default("")
    .describe(
      "Address at which clients reach this server, used in links; empty = the address or own name that the client used.",
    ),
  tls_cert: z
    .string()
    .default("")
    .describe(
      "PEM file of the certificate and its intermediates; empty = plain HTTP. A changed file is used within 10 s.",
    ),
  tls_key: z.string().default("").describe("PEM file of the private key of tls_cert, without a passphrase."),
  tls_client_ca: z
    .string()
    .default("")
    .describe("PEM file of authorities: only clients with a certificate of these may connect; empty = all clients."),
  hsts_seconds: z
    .int()
    .min(0)
    .max(63_072_000)
    .default(86_400)
    .describe("With TLS, browsers use https for every port of this host name for this long (HSTS); 0 = not sent."),
  redirect_listen: z
    .string()
    .refine((text) => text === "" || parseListen(text) !== undefined, "expected host:port, such as 0.0.0.0:80")
    .default("")
    .describe("With TLS: address of a plain HTTP port that redirects browsers to https; empty = none."),
  max_body_bytes: z
    .int()
    .min(1024)
    .max(1_073_741_824)
    .default(10_485_760)
    .describe("Largest JSON request body; routes that need little take 256 KiB."),
  body_memory_bytes: z
    .int()
    .min(1_048_576)
    .default(536_870_912)
    .describe("Most bytes of request bodies in memory, in all; beyond it requests get 503."),
  workspace_body_memory_bytes: z
    .int()
    .min(1_048_576)
    .default(134_217_728)
    .describe("The same for one workspace; a single body within its own limit always fits."),
  body_timeout_seconds: z
    .int()
    .min(1)
    .max(86_400)
    .default(300)
    .describe("Longest time for a body in memory to arrive; uploads to the disk may take longer."),
  min_upload_bytes_per_second: z
    .int()
    .min(0)
    .default(100)
    .describe("An upload to the disk that is slower, on average over a minute, is cut off; 0 = only a silent one."),
  max_requests_per_key: z
    .int()
    .min(0)
    .default(2048)
    .describe("Requests of one key at the same time, reads not counted; beyond it 429; 0 = off."),
  max_streams_per_key: z
    .int()
    .min(0)
    .default(512)
    .describe("Open streams of one key (events, logs, commands, completions); beyond it 429; 0 = off."),
  max_streams_per_workspace: z.int().min(0).default(1024).describe("The same for one workspace."),
  max_streams: z.int().min(0).default(4096).describe("The same for all keys together; beyond it 503."),
  idle_timeout_seconds: z
    .int()
    .min(20)
    .max(255)
    .default(60)
    .describe("An idle connection is closed after this long; streams send a heartbeat every 15 s."),
  cors_origins: z
    .array(
      z
        .string()
        .refine(
          (text) => text === "localhost" || isOrigin(text),
          'expected an origin such as https://app.example.com, "localhost", or "*"',
        ),
    )
    .default([])
    .describe("Origins that browsers may call from; localhost = pages of the same machine on any port; empty = none."),
  rate_limit_per_second: z.number().min(0).default(1000).describe("Steady requests per second for one key; 0 = off."),
  rate_limit_burst: z.int().min(0).default(2000).describe("Requests one key may send at once; 0 = off."),
  trusted_proxies: z
    .array(z.string().refine((text) => parseCidr(text) !== undefined, "expected an address or a CIDR"))
    .default([])
    .describe("Proxies whose X-Forwarded-For is trusted: addresses or CIDRs; empty = none."),
  idempotency_hours: z.int().min(1).max(720).default(24).describe("How long the answer to an Idempotency-Key is kept."),
});

const log = section("The log goes to standard error.", {
  level: z.enum(["debug", "info", "warn", "error"]).default("info").describe("debug, info, warn or error."),
  format: z
    .enum(["auto", "json", "text"])
    .default("auto")
    .describe("json (one object per line), text, or auto: text at a terminal, json elsewhere."),
});

const watchdog = section("Turns of the event loop that keep all other requests waiting.", {
  turn_ms: z
    .int()
    .min(0)
    .max(60_000)
    .default(200)
    .describe("A turn with this much processor time is a warning in the log; 0 = turns are not measured."),
  sampling: z
    .enum(["never", "after_long_turn", "always"])
    .default("after_long_turn")
    .describe(
      "When the stack of the server is sampled, which that warning shows; always costs some percent of a request.",
    ),
});

const db = section("SQLite.", {
  busy_timeout_ms: milliseconds
    .default(1000)
    .describe("Longest wait for another process that writes; no request is served meanwhile."),
  wal_checkpoint_pages: z.int().min(1).default(500).describe("Pages of 4 KiB in the log before a checkpoint."),
  cache_mib: z.int().min(1).max(65_536).default(32).describe("Page cache."),
});

const network = section("Outbound connections.", {
  allow_private: z.boolean().default(false).describe("Allow private ranges (RFC 1918, CGNAT, ULA)."),
  allow: z
    .array(
      z
        .string()
        .refine((text) => !!parseCidr(text) || !!normalizeHost(text), "expected a host name, an address or a CIDR"),
    )
    .default([])
    .describe("Exact host names, addresses or CIDRs that are always allowed, loopback included."),
  ca_file: z.string().default("").describe("PEM file of certificate authorities to trust beside the public ones."),
});

const shutdown = section("Stopping.", {
  deadline_ms: milliseconds.default(15_000).describe("Longest time of an orderly shutdown."),
});

const secrets = section("Encryption at rest.", {
  master_key_file: z
    .string()
    .default("")
    .describe("Empty = the systemd credential master.key where there is one, else master.key in data_dir."),
});

const hub = section("The source of models that are not on this machine.", {
  endpoint: z
    .string()
    .refine((text) => /^https?:\/\//.test(text) && URL.canParse(text), "expected an http(s) address")
    .default("https://huggingface.co")
    .describe("A hub with the Hugging Face protocol; never used when offline = true."),
  token: secret(z.string().default("").describe("Access token for private or gated models; empty = none.")),
  token_for: z
    .enum(["admin", "all"])
    .default("admin")
    .describe(
      "Workspaces that may use hub.token: those with an admin key, or all. Others store their own as the secret HUB_TOKEN.",
    ),
});

const storage = section("The storage of volumes, models and artifacts.", {
  kind: z.enum(["local", "s3"]).default("local").describe("local (in data_dir) or s3."),
  min_free_bytes: z
    .int()
    .min(0)
    .default(1_073_741_824)
    .describe("New content is rejected while the disk of data_dir has less free space than this; 0 = never."),
  s3_endpoint: z
    .string()
    .refine((text) => text === "" || (/^https?:\/\//.test(text) && URL.canParse(text)), "expected an http(s) address")
    .default("")
    .describe("Empty = Amazon's own for the region; else such as http://minio.lab:9000."),
  s3_region: z.string().default("us-east-1").describe("The bucket's region."),
  s3_bucket: z.string().default("").describe("Must exist; needed for kind = s3."),
  s3_prefix: z.string().default("").describe("Put before every key, such as verk/."),
  s3_path_style: z.boolean().default(true).describe("Address the bucket in the path, not in the host name."),
  s3_access_key_id: secret(z.string().default("").describe("Empty = none: the bucket must be open to this machine.")),
  s3_secret_access_key: secret(z.string().default("").describe("Belongs to the access key.")),
});

export const ConfigTree = z
  .strictObject({
    data_dir: z
      .string()
      .default("")
      .describe("Everything the server keeps. Empty = /var/lib/verk, else ~/.local/share/verk."),
    offline: z
      .boolean()
      .default(false)
      .describe("Make no outbound connection for a model or a dataset of the hub: use what is on this machine."),
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
    responses,
    queues,
    training,
    webhooks,
    monitors,
    detect,
    billing,
    workspaces,
    api_keys: apiKeys,
    oidc,
    audit,
    public_runs: publicRuns,
  })
  .refine(({ http, detect }) => detect.port < 1 || detect.port !== parseListen(http.listen)?.port, {
    path: ["detect", "port"],
    message: "expected another port than that of http.listen, which has detection too",
  })
  .refine(({ http }) => (http.tls_cert === "") === (http.tls_key === ""), {
    path: ["http", "tls_key"],
    message: "expected http.tls_cert and http.tls_key together, or neither",
  })
  .refine(({ http }) => http.tls_cert !== "" || (http.tls_client_ca === "" && http.redirect_listen === ""), {
    path: ["http", "tls_cert"],
    message: "expected a certificate, because http.tls_client_ca and http.redirect_listen need TLS",
  })
  .refine(({ backup }) => backup.schedule === "" || backup.target !== "", {
    path: ["backup", "target"],
    message: "expected a target, because backup.schedule is set",
  })
  .refine(({ backup }) => backup.passphrase_file === "" || backup.recipient_file === "", {
    path: ["backup", "recipient_file"],
    message: "expected a passphrase or a recipient, not both",
  })
  .refine(({ oidc }) => isCompleteOidc(oidc), {
    path: ["oidc", "issuer"],
    message: "expected oidc.client_id and oidc.roles beside it",
  })
  .refine(({ oidc }) => oidc.client_secret === "" || oidc.client_secret_file === "", {
    path: ["oidc", "client_secret_file"],
    message: "expected oidc.client_secret or oidc.client_secret_file, not both",
  });
