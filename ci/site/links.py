"""Links of a page that lead out of docs lead to the repository on the site."""

import posixpath
import re

LINK = re.compile(r"\]\((\.\./[^)\s]*)\)")


def on_page_markdown(markdown, page, config, files):
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def absolute(match):
        path = posixpath.normpath(posixpath.join(folder, match.group(1)))
        if path.startswith("docs/"):
            return match.group(0)
        return f"]({config.repo_url}/blob/main/{path})"

    return LINK.sub(absolute, markdown)
