import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/keys",
    title: "Keys and workspaces",
    load: () => import("./keys.tsx"),
    nav: { group: "Manage", icon: "keys", name: "Keys" },
    area: "account",
    jump: "k",
  },
];
