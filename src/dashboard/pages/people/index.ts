import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/people",
    title: "People",
    load: () => import("./people.tsx"),
    nav: { group: "Manage", icon: "people" },
    area: "account",
  },
];
