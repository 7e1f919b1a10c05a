/**
 * Settings that change while the server runs. The loaded configuration is frozen: these few are read through an accessor,
 * so that everything that reads them sees the change. A file, a variable or a flag wins over a change.
 */
import { SETTINGS } from "./schema.ts";
import { type Leaf, leaves } from "./walk.ts";

type Section = Record<string, unknown>;
type Changes = Map<string, unknown>;

const CHANGES = new WeakMap<object, Changes>();

/** Call before the configuration is frozen. */
export function openChanges(config: object) {
  const changes: Changes = new Map();
  CHANGES.set(config, changes);
  for (const { path, live } of leaves(SETTINGS)) {
    const [name = "", key] = path.split(".");
    if (!live || key === undefined) continue;
    const section = (config as Record<string, Section>)[name] ?? {};
    const loaded = section[key];
    const get = () => (changes.has(path) ? changes.get(path) : loaded);
    Object.defineProperty(section, key, { get, enumerable: true });
  }
}

export const isChanged = (config: object, path: string): boolean => CHANGES.get(config)?.has(path) ?? false;

/** Undefined: the loaded value counts again. The caller has checked the value by `liveLeaf`. */
export function changeSetting(config: object, path: string, value: unknown) {
  const changes = CHANGES.get(config);
  if (!changes || !liveLeaf(path)) throw new Error(`${path} does not change while the server runs`);
  if (value === undefined) changes.delete(path);
  else changes.set(path, value);
}

/** The setting with its schema. Undefined: there is none of this name that changes while the server runs. */
export const liveLeaf = (path: string): Leaf | undefined =>
  leaves(SETTINGS).find((leaf) => leaf.live && leaf.path === path);
