/** The list of components of an executable, in the format CycloneDX 1.6: `dist/verk.cdx.json`. */
import { type Hash, type Ingredient, sha256 } from "./components.ts";

export type SbomOptions = {
  version: string;
  seconds: number;
  executable: Uint8Array;
  ingredients: readonly Ingredient[];
};

type License = { expression: string } | { license: { id: string } | { name: string } };
export type Component = {
  type: "application" | Ingredient["type"];
  "bom-ref": string;
  name: string;
  version?: string;
  purl?: string;
  hashes?: Hash[];
  licenses?: License[];
  components?: Component[];
};

export function licenseOf(text: string): License {
  if (/ (AND|OR|WITH) /.test(text)) return { expression: text };
  return { license: /^[\w.+-]+$/.test(text) ? { id: text } : { name: text } };
}

export function sbom({ version, seconds, executable, ingredients }: SbomOptions) {
  const hash = sha256(executable);
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${uuidFrom(hash.content)}`,
    version: 1,
    metadata: {
      timestamp: new Date(seconds * 1000).toISOString(),
      component: {
        type: "application",
        "bom-ref": "verk",
        name: "verk",
        version,
        hashes: [hash],
        licenses: [licenseOf("Apache-2.0")],
      } satisfies Component,
    },
    components: ingredients.map(componentOf),
  };
}

/** The same executable has the same number. Version 8 is for uses of one's own. */
const uuidFrom = (hex: string) =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;

function componentOf({ type, ref, name, version, purl, hash, license, parts }: Ingredient): Component {
  const inside = parts.map((part): Component => {
    const known = part.version && { version: part.version, purl: `pkg:generic/${part.name}@${part.version}` };
    const licenses = [licenseOf(part.license)];
    return { type: "library", "bom-ref": `${ref}#${part.name}`, name: part.name, ...known, licenses };
  });
  return {
    type,
    "bom-ref": ref,
    name,
    ...(version && { version }),
    ...(purl && { purl }),
    hashes: [hash],
    licenses: [licenseOf(license)],
    ...(inside.length > 0 && { components: inside }),
  };
}
