/** The settings of a static website, as Set Blob Service Properties has them. */
export type WebsiteSettings = {
  readonly enabled: boolean;
  readonly indexDocument?: string;
  readonly defaultIndexDocumentPath?: string;
  readonly errorDocument404Path?: string;
};

/** The blob in $web that a path means; undefined if the settings name none for it. */
export function pageOf(path: string, settings: WebsiteSettings): string | undefined {
  const name = path.replace(/^\//, "");
  if (name !== "" && !name.endsWith("/")) return name;
  // A directory shows its index document, or the one default page that all of them share.
  if (settings.indexDocument !== undefined) return `${name}${settings.indexDocument}`;
  return settings.defaultIndexDocumentPath?.replace(/^\//, "");
}

const HOST_FORM = /^([a-z0-9]{3,24})(?:-secondary)?(?:\.z\d+)?\.web\./i;

/** The account whose website a host names, as account.web.localhost or account.z1.web.core.windows.net do. */
export const websiteAccountOf = (host: string): string | undefined =>
  HOST_FORM.exec(host)?.[1]?.toLowerCase();
