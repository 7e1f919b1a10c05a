/** Invitations, as subcommands of `verk users`. */
import { UsageError } from "../../lib/errors.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, JSON_FLAG } from "../args.ts";
import { printList, printResult } from "../output.ts";
import { emailOf, ROLE_NAMES, roleOf } from "./arguments.ts";

const WORKSPACE = { type: "string", value: "NAME", doc: 'Workspace of the invitation (default "default")' } as const;
const WHERE = { data: DATA_FLAG, config: CONFIG_FLAG, workspace: WORKSPACE, json: JSON_FLAG } as const;
const HOURS = 72;

export const invite = command({
  summary: "Invite a person: print a link that works once; the person chooses the password",
  takes: ["email"],
  flags: {
    ...WHERE,
    role: {
      type: "string",
      value: "ROLE",
      choices: ROLE_NAMES,
      doc: 'owner, admin, member, viewer or annotator (default "member")',
    },
    hours: { type: "string", value: "N", doc: `Hours until the link stops working, 1 to 720 (default ${HOURS})` },
  },
  examples: ["verk users invite bo@example.com --role viewer"],
  exits: { 1: "failed: the person is a user of the workspace already" },
  async run({ json, role, hours, ...where }, address = "") {
    const { audited, inWorkspace, invitations, ROLES } = await import("../offline.ts");
    const email = await emailOf(address);
    const fields = { email, role: roleOf(role ?? "member", ROLES), expires_in_hours: hoursOf(hours) };
    const invitation = await inWorkspace(where, (ctx, { id: workspaceId }) => {
      const { row, token } = invitations.create(ctx, { ...fields, workspaceId });
      audited(ctx, "verk users invite", workspaceId, row.id);
      return { ...invitations.show(ctx, row), url: invitations.linkOf(rootOf(ctx.config.http), token) };
    });
    const remark = `Send this link to ${invitation.email}. It works once, until ${invitation.expires_at}.`;
    printResult(json, invitation, { result: invitation.url, remark });
    return EXIT.ok;
  },
});

export const listInvitations = command({
  summary: "List the open invitations of a workspace, and those that expired in the last month",
  flags: WHERE,
  examples: ["verk users invitations"],
  async run({ json, ...where }) {
    const { allOf, inWorkspace, invitations } = await import("../offline.ts");
    const open = await inWorkspace(where, (ctx, { id }) => allOf((query) => invitations.list(ctx, id, query)));
    printList(json, open, {
      columns: {
        ID: ({ id }) => id,
        EMAIL: ({ email }) => email,
        ROLE: ({ role }) => role,
        STATUS: ({ status }) => status,
        EXPIRES: ({ expires_at }) => expires_at,
      },
      empty: "No open invitations. Make one with `verk users invite EMAIL`.",
    });
    return EXIT.ok;
  },
});

export const uninvite = command({
  summary: "Withdraw the invitation of a person: its link stops working",
  takes: ["email"],
  flags: WHERE,
  examples: ["verk users uninvite bo@example.com"],
  exits: { 1: "failed: the person has no open invitation to the workspace" },
  async run({ json, ...where }, address = "") {
    const { audited, inWorkspace, invitations } = await import("../offline.ts");
    const email = await emailOf(address);
    const { id } = await inWorkspace(where, (ctx, { id: workspaceId }) => {
      const row = invitations.mustFindOf(ctx, workspaceId, email);
      audited(ctx, `verk users uninvite ${row.id}`, workspaceId);
      return invitations.withdraw(ctx, workspaceId, row.id);
    });
    const remark = `The invitation of ${email} is withdrawn.`;
    printResult(json, { id, object: "invitation", deleted: true }, { remark });
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
