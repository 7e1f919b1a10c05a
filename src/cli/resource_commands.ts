/**
 * The commands that most groups have: `list`, `show`, `create`, `delete` and actions such as `stop` of one kind of thing,
 * built from its path, its columns and a few words. What is special about a group is written out in the group.
 */
import {
  type Command,
  command,
  EXIT,
  type Flag,
  type Flags,
  type FlagValues,
  FULL_FLAG,
  JSON_FLAG,
  SERVER_FLAGS,
} from "./args.ts";
import type { Client } from "./client.ts";
import { type Connection, connect } from "./connect.ts";
import { listAll } from "./lists.ts";
import { columns as aligned, type Columns, plain, print, printJson, printList, printResult } from "./output.ts";

type Item = { id: string };
type Words = Pick<Command, "summary" | "examples" | "exits">;
type NoFlags = Record<never, Flag>;

/** Flags of every command that calls the API and can print JSON. */
export const COMMON_FLAGS = { ...SERVER_FLAGS, json: JSON_FLAG } as const;
type Common = FlagValues<typeof COMMON_FLAGS & { full: typeof FULL_FLAG }>;

type Listing<T extends Item, F extends Flags> = Words & {
  /** A list that belongs to one thing depends on `takes`. */
  path: string | ((client: Client, target: string) => Promise<string>);
  takes?: string;
  /** Flags of this list alone. */
  flags?: F;
  /** Parameters of the request. */
  query?: (flags: FlagValues<F>) => Record<string, string | undefined>;
  columns: Columns<T>;
  /** The note for an empty list: it says how to make one. */
  empty: string;
  /** The other commands of the group take the beginning of an id, so a terminal shows short ones. */
  hasShortIds?: true;
};

export function listCommand<T extends Item, const F extends Flags = NoFlags>(listing: Listing<T, F>): Command {
  const { path, takes, flags, query, columns, empty, hasShortIds, ...words } = listing;
  return command({
    ...words,
    ...(takes === undefined ? {} : { takes: [takes] }),
    flags: { ...COMMON_FLAGS, ...flags, ...(hasShortIds ? { full: FULL_FLAG } : {}) },
    async run(values, target = "") {
      const { json, full, ...where } = values as Common; // `parse` gives every flag its type
      const { client } = await connect(where);
      const at = typeof path === "string" ? path : await path(client, target);
      const items = await itemsOf<T>(client, at, query?.(values as FlagValues<F>));
      printList(json, items, { columns, empty, ...(hasShortIds ? { full } : {}) });
      return EXIT.ok;
    },
  });
}

/** All items of a list of the server. */
export function itemsOf<T extends Item>(client: Client, path: string, query: Record<string, string | undefined> = {}) {
  const pairs = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return listAll<T>(client, pairs.length > 0 ? `${path}?${new URLSearchParams(pairs)}` : path, ({ id }) => id);
}

type One<T extends Item> = Words & {
  /** The word of the argument: `verk datasets delete DATASET`. */
  takes: string;
  path: string;
  /** The item that the argument names. Without it, the server knows the argument itself. */
  find?: (client: Client, target: string) => Promise<T>;
};

/** `facts`: lines of two columns. Without it, the item is printed as JSON. */
type Showing<T extends Item> = One<T> & { facts?: (item: T, url: string) => readonly (readonly string[])[] };

export function showCommand<T extends Item>({ takes, path, find, facts, ...words }: Showing<T>): Command {
  return command({
    ...words,
    takes: [takes],
    flags: facts ? COMMON_FLAGS : SERVER_FLAGS,
    async run(values, target = "") {
      const { json, ...where } = values as Common;
      const { client, url } = await connect(where);
      const item = find ? await find(client, target) : await itemAt<T>(client, path, target);
      if (!facts) print(JSON.stringify(item, null, 2));
      else if (json) printJson(item);
      else for (const line of aligned(facts(item, url))) print(plain(line));
      return EXIT.ok;
    },
  });
}

const itemAt = async <T>(client: Client, path: string, target: string) =>
  (await client.call<T>("GET", `${path}/${encodeURIComponent(target)}`)).body;

/** `says`: the note after it. `item` is what the server answered if nothing had to be found first. */
type Removing<T extends Item> = One<T> & { says: (item: T, target: string) => string };

export function removeCommand<T extends Item = Item>({ takes, path, find, says, ...words }: Removing<T>): Command {
  return command({
    ...words,
    takes: [takes],
    flags: COMMON_FLAGS,
    async run(values, target = "") {
      const { json, ...where } = values as Common;
      const { client } = await connect(where);
      const item = await find?.(client, target);
      const { body } = await client.call<T>("DELETE", `${path}/${encodeURIComponent(item?.id ?? target)}`);
      printResult(json, body, { remark: says(item ?? body, target) });
      return EXIT.ok;
    },
  });
}

/** `says`: the note after it. `item` is the thing before it; `answer` is what the server made of it. */
type Acting<T extends Item, A> = Omit<One<T>, "find"> & {
  find: (client: Client, target: string) => Promise<T>;
  /** The last part of the path: `stop`. */
  action: string;
  says: (answer: A, item: T) => string;
};

export function actionCommand<T extends Item, A = T>({ takes, path, find, action, says, ...words }: Acting<T, A>) {
  return command({
    ...words,
    takes: [takes],
    flags: COMMON_FLAGS,
    async run({ json, ...where }, target = "") {
      const { client } = await connect(where);
      const item = await find(client, target);
      const { body } = await client.call<A>("POST", `${path}/${encodeURIComponent(item.id)}/${action}`);
      printResult(json, body, { remark: says(body, item) });
      return EXIT.ok;
    },
  });
}

type Creating<T extends Item, F extends Flags> = Words &
  Pick<Command, "fields"> & {
    /** The word of the argument, if there is one. */
    takes?: string;
    path: string;
    /** Flags of this command alone. */
    flags?: F;
    /** The fields of the request. `server` connects: only for fields that must be looked up there. */
    body: (flags: FlagValues<F>, target: string, server: () => Promise<Client>) => object | Promise<object>;
    /** The line on standard output. Default: the id. */
    result?: (item: T) => string;
    /** The note after it. */
    says?: (item: T) => string;
  };

export function createCommand<T extends Item, const F extends Flags = NoFlags>(creating: Creating<T, F>): Command {
  const { takes, path, flags, body: bodyOf, result = ({ id }) => id, says, ...words } = creating;
  return command({
    ...words,
    ...(takes === undefined ? {} : { takes: [takes] }),
    flags: { ...COMMON_FLAGS, ...flags },
    async run(values, target = "") {
      const { json, ...where } = values as Common;
      let connection: Promise<Connection> | undefined;
      const server = async () => {
        connection ??= connect(where);
        return (await connection).client;
      };
      const request = await bodyOf(values as FlagValues<F>, target, server);
      const { body } = await (await server()).call<T>("POST", path, request);
      printResult(json, body, { result: result(body), remark: says?.(body) });
      return EXIT.ok;
    },
  });
}
