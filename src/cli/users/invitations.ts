/** Invitations, as subcommands of `verk users`. */
import { UsageError } from "../../lib/errors.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, JSON_FLAG } from "../args.ts";
import { note, print, printJson, printTable } from "../output.ts";
import { settingsOf } from "../settings.ts";
import { emailOf, roleOf } from "./arguments.ts";

const WORKSPACE = { type: "string", value: "NAME", doc: 'Workspace of the invitation (default "default")' } as const;
const WHERE = { data: DATA_FLAG, config: CONFIG_FLAG, workspace: WORKSPACE, json: JSON_FLAG } as const;
const HOURS = 72;

export const invite = command({
  summary: "Invite a person: print a link that works once; the person chooses the password",
  takes: ["email"],
  flags: {
    ...WHERE,
    role: { type: "string", value: "ROLE", doc: 'owner, admin, member, viewer or annotator (default "member")' },
    hours: { type: "string", value: "N", doc: `Hours until the link stops working, 1 to 720 (default ${HOURS})` },
  },
  examples: ["verk users invite bo@example.com --role viewer"],
  exits: { 1: "failed: the person is a user of the workspace already" },
  async run({ workspace, json, role, hours, ...where }, address = "") {
    const { audited, DEFAULT_WORKSPACE, invitations, mustFindWorkspace, offline, presentInvitation, ROLES } =
      await import("../offline.ts");
    const email = await emailOf(address);
    const given = roleOf(role ?? "member", ROLES);
    const config = settingsOf(where);
    const made = await offline(config, (ctx) => {
      const { id: workspaceId } = mustFindWorkspace(ctx, workspace ?? DEFAULT_WORKSPACE);
      const fields = { email, role: given, expires_in_hours: hoursOf(hours) };
      const { row, token } = invitations.create(ctx, { ...fields, workspaceId });
      audited(ctx, "verk users invite", workspaceId, row.id);
      return { ...presentInvitation(row), url: invitations.linkOf(rootOf(config.http), token) };
    });
    if (json) printJson(made);
    else {
      print(made.url);
      note(`Send this link to ${made.email}. It works once, until ${made.expires_at}.`);
    }
    return EXIT.ok;
  },
});

export const listInvitations = command({
  summary: "List the open invitations of a workspace, newest first",
  flags: WHERE,
  examples: ["verk users invitations"],
  async run({ workspace, json, ...where }) {
    const { allOf, DEFAULT_WORKSPACE, invitations, mustFindWorkspace, offline } = await import("../offline.ts");
    const found = await offline(settingsOf(where), (ctx) => {
      const { id } = mustFindWorkspace(ctx, workspace ?? DEFAULT_WORKSPACE);
      return allOf((query) => invitations.list(ctx, id, query));
    });
    if (json) printJson({ object: "list", data: found, has_more: false });
    else {
      const rows = found.map(({ id, email, role, expires_at: end }) => [id, email, role, end]);
      const none = "No open invitations. Make one with `verk users invite EMAIL`.";
      printTable(["ID", "EMAIL", "ROLE", "EXPIRES"], rows, none);
    }
    return EXIT.ok;
  },
});

export const uninvite = command({
  summary: "Withdraw the invitation of a person: its link stops working",
  takes: ["email"],
  flags: WHERE,
  examples: ["verk users uninvite bo@example.com"],
  exits: { 1: "failed: the person has no open invitation to the workspace" },
  async run({ workspace, json, ...where }, address = "") {
    const { audited, DEFAULT_WORKSPACE, invitations, mustFindWorkspace, offline } = await import("../offline.ts");
    const email = await emailOf(address);
    const { id } = await offline(settingsOf(where), (ctx) => {
      const { id: workspaceId } = mustFindWorkspace(ctx, workspace ?? DEFAULT_WORKSPACE);
      const row = invitations.mustFindOf(ctx, workspaceId, email);
      audited(ctx, `verk users uninvite ${row.id}`, workspaceId);
      return invitations.withdraw(ctx, workspaceId, row.id);
    });
    if (json) printJson({ id, object: "invitation", deleted: true });
    else note(`The invitation of ${email} is withdrawn.`);
    return EXIT.ok;
  },
});

function hoursOf(text: string | undefined): number {
  const hours = Number(text ?? HOURS);
  if (Number.isInteger(hours) && hours >= 1 && hours <= 720) return hours;
  throw new UsageError(`--hours: expected 1 to 720, not ${JSON.stringify(text)}`);
}

/** The address in the link. A server that listens on all addresses is called by its public address, if it has one. */
function rootOf({
  public_url: publicUrl,
  listen,
  tls_cert: cert,
}: Record<"public_url" | "listen" | "tls_cert", string>) {
  return publicUrl === "" ? `${cert === "" ? "http" : "https"}://${listen}` : publicUrl;
}
