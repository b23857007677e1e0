# tries: move directories around, in and out of one another
# expect: exit 0
# diff: workspace -dir -dir/inner.txt -dir/deep -dir/deep/leaf.txt +empty/dir +empty/dir/inner.txt +empty/dir/deep +empty/dir/deep/leaf.txt
# diff: workspace -keep.txt +run.txt
import os
import shutil

from probe import fact

os.chdir(fact("ws", "/workspace"))
shutil.move("dir", "empty/dir")
os.rename("keep.txt", "run.txt")
