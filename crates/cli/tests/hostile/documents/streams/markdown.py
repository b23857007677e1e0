# tries: to open what swallows the rest of the document
# run: 0
# exit_code: 0
# notes: None observed
# shows: | quokka
for line in ["```", "~~~", "<!-- quokka", "| quokka", "> quokka", "    quokka", "***",
             "[quokka]: http://example.org", "<details>", "&#35;&#35; Summary", "\\"]:
    print(line)
