import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  { path: "/", title: "Home", load: () => import("./home.tsx"), nav: { group: "Work", icon: "home" }, jump: "h" },
];
