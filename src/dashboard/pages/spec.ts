import type { ComponentType } from "preact";
import type { IconName } from "../kit/icon.tsx";

export type PageProps = { params: Readonly<Record<string, string>> };

/** Groups of the navigation, in order. */
export const GROUPS = ["Work", "Data", "Serve", "Manage"] as const;

export type PageSpec = {
  /** `/runs/:id` */
  path: string;
  title: string;
  /** The page's code, loaded when it is opened: `() => import("./list.tsx")`. The module exports `Page`. */
  load: () => Promise<{ Page: ComponentType<PageProps> }>;
  /** The line in the navigation. Absent: the page is reached from another one. */
  nav?: { group: (typeof GROUPS)[number]; icon: IconName /** Default: the title. */; name?: string } | undefined;
  /** Scopes area that the page needs; it is hidden from keys that lack it. */
  area?: "training" | "inference" | "detect" | "account" | "admin" | undefined;
  /** Entries of Search beside the page itself: `[["New key", "/keys?new=1"]]`. */
  actions?: readonly (readonly [name: string, href: string])[] | undefined;
  /** Keys after `g` that open the page: `g r`. */
  jump?: string | undefined;
  /** Its own keys, for the list of keys. */
  keys?: readonly (readonly [does: string, keys: string])[] | undefined;
};
