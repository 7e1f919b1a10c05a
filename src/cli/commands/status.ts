import { formatBytes } from "../../lib/bytes.ts";
import { JOB_ACTIVE } from "../../lib/training/job_status.ts";
import type { Gpu } from "../../resources/machines/gpu/schema.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import type { Client } from "../client.ts";
import { connect } from "../connect.ts";
import { allDeployments, type Deployment, stateOf } from "../deployments.ts";
import { allJobs, isOver, type Job } from "../jobs/find.ts";
import { headlineOf, shortNumber, stepOf } from "../jobs/view.ts";
import { listAll } from "../lists.ts";
import { print, printJson, printTable } from "../output.ts";

type Version = { version: string; commit: string };
type Account = { name: string; key: { scopes: string[] } };

export const status = command({
  summary: "Show the server: version, devices, running jobs and deployments",
  flags: { ...SERVER_FLAGS, json: JSON_FLAG },
  examples: ["verk status", "verk status --json"],
  exits: { 1: "failed: no server runs, or it cannot be reached" },
  async run({ json, ...where }) {
    const { client, url } = await connect(where);
    const [version, account, devices, jobs, deployments] = await Promise.all([
      client.call<Version>("GET", "/version").then(({ body }) => body),
      client.call<Account>("GET", "/v1/account").then(({ body }) => body),
      listAll<Gpu>(client, "/v1/gpu", ({ id }) => id),
      activeJobs(client),
      allDeployments(client),
    ]);
    if (json) {
      const { name } = account;
      printJson({ object: "status", url, version: version.version, workspace: name, devices, jobs, deployments });
      return EXIT.ok;
    }
    print(`verk ${version.version} at ${url}, workspace ${account.name}`);
    for (const device of devices) print(deviceLine(device));
    showJobs(jobs);
    showDeployments(deployments);
    return EXIT.ok;
  },
});

/** Jobs that are not over. A list of each status, because there may be thousands of ended jobs. */
async function activeJobs(client: Client): Promise<Job[]> {
  const lists = await Promise.all(JOB_ACTIVE.map((status) => allJobs(client, { status })));
  return lists.flat().filter((job) => !isOver(job));
}

function deviceLine({ name, memory_total_bytes: all, memory_leased_bytes: leased, leases }: Gpu): string {
  const holders = leases.length === 1 ? "1 job or deployment" : `${leases.length} jobs or deployments`;
  return `${name}: ${formatBytes(leased)} of ${formatBytes(all)} reserved${leases.length === 0 ? "" : ` by ${holders}`}`;
}

function showJobs(jobs: readonly Job[]) {
  const rows = jobs.map((job) => {
    const key = headlineOf(job.method);
    const value = job.latest_metrics[key];
    return [
      job.id,
      job.output_name,
      job.status,
      stepOf(job),
      value === undefined ? "-" : `${key} ${shortNumber(value)}`,
      job.queue_reason ?? "",
    ];
  });
  print("");
  if (rows.length === 0) print("No job runs or waits.");
  else printTable(["ID", "JOB", "STATUS", "STEP", "HEADLINE", ""], rows, "", { full: false });
}

/** Stopped deployments are left out; failed ones are not, because they need an action. */
function showDeployments(deployments: readonly Deployment[]) {
  const shown = deployments.filter((each) => each.status !== "stopped");
  const rows = shown.map((each) => [
    each.id,
    each.name,
    stateOf(each),
    each.model,
    String(each.total_requests),
    each.last_error ?? "",
  ]);
  print("");
  if (rows.length === 0) print("No deployments.");
  else printTable(["ID", "DEPLOYMENT", "STATUS", "MODEL", "REQUESTS", ""], rows, "", { full: false });
}
