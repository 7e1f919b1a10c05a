import type { PageSpec } from "../spec.ts";
import { Page } from "./home.tsx";

/** Not a chunk of its own: it is the first page that people see. */
export const pages: readonly PageSpec[] = [
  { path: "/", title: "Home", load: async () => ({ Page }), nav: { group: "Work", icon: "home" }, jump: "h" },
];
