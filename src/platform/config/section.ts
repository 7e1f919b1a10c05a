import { z } from "zod";
import { DAY_MS } from "../../lib/units.ts";

/** A setting. Its schema is made when a value is given: most of them keep their defaults, which need no check. */
export type Setting<T = unknown> = {
  readonly doc: string;
  readonly fallback: T;
  readonly schema: () => z.ZodType<T>;
  /** The value must never be shown. */
  readonly isSecret: boolean;
  /** The operator may change it while the server runs: no code keeps a copy of the value. */
  readonly isLive: boolean;
};

export type Section<S extends Record<string, Setting> = Record<string, Setting>> = {
  /** A line that says what the section is about. */
  readonly doc: string;
  readonly settings: S;
};

export type SettingsTree = { readonly [name: string]: Setting | Section };

type ValueOf<S> = S extends Setting<infer T> ? T : never;
/** The values of a tree of settings. */
export type ValuesOf<T extends SettingsTree> = {
  [K in keyof T]: T[K] extends Section<infer S> ? { [N in keyof S]: ValueOf<S[N]> } : ValueOf<T[K]>;
};

export const setting = <S extends z.ZodType>(
  fallback: NoInfer<z.output<S>>,
  doc: string,
  schema: () => S,
): Setting<z.output<S>> => ({
  doc,
  fallback,
  schema: schema as () => z.ZodType<z.output<S>>,
  isSecret: false,
  isLive: false,
});

export const section = <S extends Record<string, Setting>>(doc: string, settings: S): Section<S> => ({ doc, settings });

export const milliseconds = () => z.int().min(1).max(DAY_MS);

export const secret = <T>(plain: Setting<T>): Setting<T> => ({ ...plain, isSecret: true });

/** For limits and retention times that are read at each use, and that open no door. */
export const live = <T>(plain: Setting<T>): Setting<T> => ({ ...plain, isLive: true });
