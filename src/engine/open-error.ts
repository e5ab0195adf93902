/** Why a data directory cannot be served; its message is a whole sentence for the person at the terminal. */
export class OpenError extends Error {}

const FORBIDDEN = [
  ...["EACCES", "EPERM", "EROFS", "ENOTDIR", "EISDIR", "EEXIST", "ELOOP", "ENAMETOOLONG"],
  ...["ENOSPC", "EDQUOT", "EMFILE", "ENFILE"],
];

/** The same for what the system refuses, which is for the person at the terminal to mend; other errors as they are. */
export function forbidden(error: unknown, directory: string): unknown {
  const { code = "", message } = error as NodeJS.ErrnoException;
  if (!FORBIDDEN.includes(code)) return error;
  return new OpenError(`The directory ${directory} cannot be used: ${message}.`);
}
