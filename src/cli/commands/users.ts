import type { Ctx } from "../../context.ts";
import { UsageError } from "../../lib/errors.ts";
import { issueText } from "../../lib/text/issue.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, type Group, JSON_FLAG } from "../args.ts";
import { printList, printResult } from "../output.ts";
import { emailOf, ROLE_NAMES, roleOf } from "../users/arguments.ts";
import { invite, listInvitations, uninvite } from "../users/invitations.ts";
import { labelOf } from "./manage/keys.ts";

const WORKSPACE = { type: "string", value: "NAME", doc: 'Workspace of the user (default "default")' } as const;
const WHERE = { data: DATA_FLAG, config: CONFIG_FLAG, workspace: WORKSPACE, json: JSON_FLAG } as const;
const PASSWORD = {
  type: "boolean",
  doc: "Read the password from standard input instead of making one",
} as const;
const NO_USER = { 1: "failed: the workspace has no such user (choose the workspace with --workspace)" };

const add = command({
  summary: "Add a user and print a new password; it is shown only once",
  takes: ["email"],
  flags: {
    ...WHERE,
    role: {
      type: "string",
      value: "ROLE",
      choices: ROLE_NAMES,
      doc: 'owner, admin, member, viewer or annotator (default "member")',
    },
    name: { type: "string", value: "NAME", doc: "Name of the person (default: the address before the @)" },
    operator: { type: "boolean", doc: "Let this owner manage the installation too, as the scope admin does" },
    "password-stdin": PASSWORD,
    "keep-password": {
      type: "boolean",
      doc: "A person whom you or the provider added before keeps password, second factor and sessions; without it they end",
    },
  },
  examples: [
    "verk users add ada@example.com --role owner --operator",
    "verk users add bo@example.com --role viewer",
    "verk users add bo@example.com --workspace research --keep-password",
  ],
  exits: { 1: "failed: the person is a user of the workspace already, or has no password to keep" },
  async run({ json, role, name, operator, ...rest }, address = "") {
    const { "password-stdin": fromStdin, "keep-password": keeps, ...where } = rest;
    const { audited, inWorkspace, people, persons, ROLES } = await cli();
    const email = await emailOf(address);
    const wantedRole = roleOf(role ?? "member", ROLES);
    if (operator && wantedRole !== "owner")
      throw new UsageError("--operator: only an owner can be an operator (--role owner)");
    if (keeps && fromStdin) throw new UsageError("--keep-password and --password-stdin: give one of them");
    const label = labelOf("--name", name ?? email.split("@")[0] ?? email);
    const password = keeps ? undefined : await newPassword(fromStdin);
    const { user, shown, wasPerson } = await inWorkspace(
      where,
      async (ctx, { id: workspaceId }) => {
        const person = persons.findProven(ctx, email);
        const isOfProvider = person?.passwordHash === null && persons.hasIdentity(ctx, person.id) && !fromStdin;
        const passwordHash =
          isOfProvider && password !== undefined ? null : password && (await persons.newHash(ctx, email, password));
        const fields = { workspaceId, email, name: label, role: wantedRole, isOperator: operator, passwordHash };
        const row = people.vouch(ctx, fields);
        audited(ctx, "verk users add", workspaceId, row.id);
        const isShown = typeof passwordHash === "string" && !fromStdin;
        return { user: people.show(ctx, row), shown: isShown ? password : undefined, wasPerson: person !== undefined };
      },
      { create: true }, // the first user may come before the first start
    );
    const ended = "The older password, second factor and sessions have ended.";
    const change = keeps ? "The password, second factor and sessions are kept." : ended;
    const store = shown === undefined ? "" : " Store the password now: it is not shown again.";
    printResult(
      json,
      { ...user, ...(shown === undefined ? {} : { password: shown }) },
      {
        result: shown,
        remark: `${user.email} is ${user.role} (${user.id}).${wasPerson ? ` ${change}` : ""}${store}`,
      },
    );
    return EXIT.ok;
  },
});

const list = command({
  summary: "List the users of a workspace, newest first",
  flags: WHERE,
  examples: ["verk users list", "verk users list --workspace research --json"],
  async run({ json, ...where }) {
    const { allOf, inWorkspace, people } = await cli();
    const all = await inWorkspace(where, (ctx, { id }) => allOf((query) => people.list(ctx, id, query)));
    printList(json, all, {
      columns: {
        ID: ({ id }) => id,
        EMAIL: ({ email }) => email,
        ROLE: ({ operator, role }) => (operator ? "owner, operator" : role),
        "SECOND FACTOR": ({ second_factor }) => (second_factor ? "yes" : "no"),
        "LAST SIGN-IN": ({ last_sign_in_at }) => last_sign_in_at ?? "never",
      },
      empty: "No users. Add one with `verk users add EMAIL`.",
    });
    return EXIT.ok;
  },
});

const role = command({
  summary: "Change the role of a user; it takes effect within a second",
  takes: ["email", "role"],
  flags: WHERE,
  examples: ["verk users role ada@example.com admin"],
  exits: NO_USER,
  async run({ json, ...where }, address = "", word = "") {
    const { people, ROLES } = await cli();
    const to = roleOf(word, ROLES);
    const user = await change({ address, words: "role", where }, (ctx, { workspaceId, id }) =>
      people.show(ctx, people.setRole(ctx, { workspaceId, id, role: to })),
    );
    printResult(json, user, { remark: `${user.email} is ${user.role}.` });
    return EXIT.ok;
  },
});

const remove = command({
  summary: "Remove a user from a workspace: sessions end and the user's keys are revoked",
  takes: ["email"],
  flags: WHERE,
  examples: ["verk users remove bo@example.com"],
  exits: NO_USER,
  async run({ json, ...where }, address = "") {
    const { people } = await cli();
    const { id } = await change({ address, words: "remove", where }, (ctx, { workspaceId, id }) =>
      people.remove(ctx, { workspaceId, id }),
    );
    printResult(json, { id, object: "user", deleted: true }, { remark: `${address} is removed.` });
    return EXIT.ok;
  },
});

const reset = command({
  summary: "Give a user a new password and end every session of the person",
  takes: ["email"],
  flags: { ...WHERE, "password-stdin": PASSWORD },
  examples: ["verk users reset-password ada@example.com", "verk users reset-password ada@example.com --json"],
  exits: NO_USER,
  async run({ json, "password-stdin": fromStdin, ...where }, address = "") {
    const { people } = await cli();
    const password = await newPassword(fromStdin);
    const target = { address, words: "reset-password", where, password };
    const user = await change(target, (ctx, { workspaceId, id, passwordHash }) => {
      const row = people.mustGet(ctx, workspaceId, id);
      people.setPassword(ctx, row.personId, passwordHash);
      return people.show(ctx, row);
    });
    printResult(
      json,
      { ...user, ...(fromStdin ? {} : { password }) },
      {
        result: fromStdin ? undefined : password,
        remark: `${user.email} has a new password, and all sessions have ended.`,
      },
    );
    return EXIT.ok;
  },
});

const removeFactor = command({
  summary: "Remove the second factor of a person who has lost the phone and the recovery codes",
  takes: ["email"],
  flags: WHERE,
  examples: ["verk users remove-second-factor ada@example.com"],
  exits: { 1: "failed: no such user, or the user has no second factor" },
  async run({ json, ...where }, address = "") {
    const { people, secondFactor } = await cli();
    const target = { address, words: "remove-second-factor", where };
    const { user, isRemoved } = await change(target, (ctx, { workspaceId, id }) => {
      const row = people.mustGet(ctx, workspaceId, id);
      const isRemoved = secondFactor.remove(ctx, row.personId);
      return { user: people.show(ctx, row), isRemoved };
    });
    const remark = isRemoved
      ? `${user.email} signs in with the password alone until a new second factor is added.`
      : `${user.email} has no second factor.`;
    printResult(json, user, { remark });
    return isRemoved ? EXIT.ok : EXIT.failed;
  },
});

export const users: Group = {
  summary: "Manage the people of a workspace, with or without a running server",
  subcommands: {
    add,
    list,
    role,
    remove,
    "reset-password": reset,
    "remove-second-factor": removeFactor,
    invite,
    invitations: listInvitations,
    uninvite,
  },
};

const cli = () => import("../offline.ts");

type Target = {
  address: string;
  words: string;
  where: { data: string | undefined; config: string | undefined; workspace: string | undefined };
  password?: string;
};
type UserToChange = { workspaceId: string; id: string; passwordHash: string | null };

/** Runs `body` on the user with that address, and records the command in the audit log. */
async function change<T>(
  { address, words, where, password }: Target,
  body: (ctx: Ctx, user: UserToChange) => T,
): Promise<T> {
  const { audited, inWorkspace, people, persons } = await cli();
  const email = await emailOf(address);
  return await inWorkspace(where, async (ctx, { id: workspaceId }) => {
    const passwordHash = password === undefined ? null : await persons.newHash(ctx, email, password);
    const { id } = people.mustFind(ctx, workspaceId, email);
    audited(ctx, `verk users ${words} ${id}`, workspaceId);
    return body(ctx, { workspaceId, id, passwordHash });
  });
}

async function newPassword(fromStdin: boolean): Promise<string> {
  const { NewPassword, randomPassword } = await cli();
  const password = fromStdin ? (await Bun.stdin.text()).replace(/\r?\n$/, "") : randomPassword();
  const { success, error } = NewPassword.safeParse(password);
  if (!success) throw new UsageError(`--password-stdin: ${issueText(error.issues[0])}`);
  return password;
}
